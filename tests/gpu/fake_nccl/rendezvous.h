#pragma once

#include <array>
#include <string>
#include <vector>

#include "gpu/fake_nccl/sockets.h"

/// How the ranks of a communicator find each other. ncclGetUniqueId makes a private folder under /tmp and a thread, the root,
/// that listens in it; the identifier is the folder's path. Each rank listens at a socket of its own in the folder, then tells
/// the root who it is (Hello). When all have come the root tells each rank who all are (Reply, and a Hello of each), and rank
/// after rank connects to those below it. A rank that has all its connections says so (one byte), and the root lets all go (Reply)
/// when each has: no rank waits for one that has died on the way, since the root sees its connection close and tells the others.
namespace strata::test::fake_nccl {

struct Hello {
  int32_t rank = 0;
  int32_t ranks = 0;
  int32_t process = 0;
  int32_t device = -1;  ///< -1: unknown.
  int32_t failed = 0;   ///< Not 0: this rank will not come.
  std::array<char, 64> host{};
};

/// What the root says. A code other than ncclSuccess is the end.
struct Reply {
  int32_t code = ncclSuccess;
  std::array<char, 252> text{};
};

std::string root_path(const std::string& folder);
std::string rank_path(const std::string& folder, int rank);
/// The folder of an identifier. @throws Failure  ncclInvalidArgument: it has not come from ncclGetUniqueId.
std::string folder_of(const ncclUniqueId& id);

/// The peers of a rank, by rank; its own socket is none.
struct Mesh {
  std::vector<Socket> sockets;
  std::vector<Hello> ranks;
};

/// Connects a rank with all others.
/// @throws Stopped.  Failure  ncclRemoteError: another rank has ended or failed. ncclInvalidUsage: ranks disagree.
///   ncclSystemError: the deadline has passed.
Mesh connect_ranks(const ncclUniqueId& id, const Hello& self, const StopSignal& stop,
                   Deadline deadline);

/// Tells the others that this rank will not come.
void report_absence(const ncclUniqueId& id, Hello self);

}  // namespace strata::test::fake_nccl
