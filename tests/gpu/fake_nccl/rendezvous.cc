#include "gpu/fake_nccl/rendezvous.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

namespace strata::test::fake_nccl {
namespace {

constexpr const char* kFolderBegin = "/tmp/fake_nccl.";

// The next reply of the root; an error that it reports is thrown.
void receive_reply(const Socket& root, const StopSignal& stop, Deadline deadline) {
  Reply reply;
  if (!receive_all(root, &reply, sizeof(reply), stop, deadline)) {
    throw Failure{ncclRemoteError, "the process that made the unique id has ended"};
  }
  if (reply.code != ncclSuccess) {
    throw Failure{static_cast<ncclResult_t>(reply.code), reply.text.data()};
  }
}

void connect_to_lower(Mesh& mesh, const std::string& folder, const Hello& self,
                      const StopSignal& stop, Deadline deadline) {
  for (int rank = 0; rank < self.rank; ++rank) {
    auto socket = connect_to(rank_path(folder, rank));
    if (!socket || !send_all(*socket, &self.rank, sizeof(self.rank), stop, deadline)) {
      throw Failure{ncclRemoteError, "rank " + std::to_string(rank) + " has ended"};
    }
    mesh.sockets[static_cast<size_t>(rank)] = std::move(*socket);
  }
}

void accept_higher(Mesh& mesh, const Socket& listener, const Socket& root, const Hello& self,
                   const StopSignal& stop, Deadline deadline) {
  for (int missing = self.ranks - 1 - self.rank; missing > 0; --missing) {
    std::optional<Socket> socket = accept_from(listener);
    while (!socket) {
      // Before all are connected the root speaks only of failures.
      wait_for_socket(listener.fd(), root.fd(), POLLIN, stop, deadline);
      socket = accept_from(listener);
      if (!socket) receive_reply(root, stop, deadline);
    }
    int32_t rank = 0;
    if (!receive_all(*socket, &rank, sizeof(rank), stop, deadline)) {
      throw Failure{ncclRemoteError, "a rank has ended while ranks were connected"};
    }
    mesh.sockets.at(static_cast<size_t>(rank)) = std::move(*socket);
  }
}

}  // namespace

std::string root_path(const std::string& folder) { return folder + "/root"; }

std::string rank_path(const std::string& folder, int rank) {
  return folder + "/" + std::to_string(rank);
}

std::string folder_of(const ncclUniqueId& id) {
  const std::string folder(id.internal, ::strnlen(id.internal, sizeof(id.internal)));
  if (!folder.starts_with(kFolderBegin)) {
    throw Failure{ncclInvalidArgument, "the unique id is none of ncclGetUniqueId"};
  }
  return folder;
}

Mesh connect_ranks(const ncclUniqueId& id, const Hello& self, const StopSignal& stop,
                   Deadline deadline) {
  const std::string folder = folder_of(id);
  auto root = connect_to(root_path(folder));
  if (!root) throw Failure{ncclRemoteError, "the process that made the unique id has ended"};
  // Without a listener another rank has this number, which the root reports to all.
  const std::optional<Socket> listener = listen_at(rank_path(folder, self.rank));
  if (!send_all(*root, &self, sizeof(self), stop, deadline)) {
    throw Failure{ncclRemoteError, "the process that made the unique id has ended"};
  }
  receive_reply(*root, stop, deadline);
  Mesh mesh;
  mesh.ranks.resize(static_cast<size_t>(self.ranks));
  mesh.sockets.resize(static_cast<size_t>(self.ranks));
  for (Hello& each : mesh.ranks) {
    if (!receive_all(*root, &each, sizeof(each), stop, deadline)) {
      throw Failure{ncclRemoteError, "the process that made the unique id has ended"};
    }
  }
  connect_to_lower(mesh, folder, self, stop, deadline);
  accept_higher(mesh, *listener, *root, self, stop, deadline);
  const char connected = 1;
  send_all(*root, &connected, sizeof(connected), stop, deadline);
  receive_reply(*root, stop, deadline);
  return mesh;
}

void report_absence(const ncclUniqueId& id, Hello self) {
  self.failed = 1;
  const auto root = connect_to(root_path(folder_of(id)));
  const StopSignal never;
  const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  if (root) send_all(*root, &self, sizeof(self), never, deadline);
}

}  // namespace strata::test::fake_nccl
