#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "collective/communicator.h"
#include "strata/collective/algorithms.h"
#include "strata/core/error.h"

namespace strata::collective {

struct MpiOptions {
  /// This process, in the others' messages: "/job:worker/task:1". Empty: its process id.
  std::string name = {};
  /// Order::kAny: sums and means of float, double and integers of 32 and 64 bits are
  /// MPI_Iallreduce's where tensors are not small, in whatever order it likes.
  Order order = Order::kFixed;
  /// Of each call.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  /// Of the set-up; up to 5 s more until all know that it was in vain.
  std::chrono::milliseconds start_timeout = std::chrono::minutes(1);
  /// As in SharedMemoryOptions; `cores` of the ranks on this host.
  int cores = 0;
  std::stop_token failed = {};
  std::function<Status()> reason = {};
  std::function<Status(const Status& seen)> root_cause = {};

  // How fast. The same on all ranks.
  /// What a rank brings travels with its word that it has come, up to so many bytes, and up to
  /// twice as many from all others together.
  int64_t small_bytes = int64_t{32} << 10;
  /// Larger tensors travel in such pieces, of which two are under way. At most 2^30.
  int64_t piece_bytes = int64_t{4} << 20;
};

/// The `mpi` back end, for sites whose tuned engine is MPI: collectives by MPI's, between processes
/// that mpirun, mpiexec or srun has started. The bits are WireCommunicator's in fixed order: parts
/// are exchanged with MPI_Ialltoallv, added in the fixed tree, and gathered with MPI_Iallgatherv.
///
/// MPI is initialised when the first such communicator is made (MPI_THREAD_SERIALIZED, on a thread
/// of its own, "mpi"), which all processes of the MPI job must do, and finalized at the process's
/// exit (which waits at most 2 s for the others after a failed call, else 30 minutes). A program
/// that calls MPI itself initialises it before, with MPI_Init_thread and at least
/// MPI_THREAD_SERIALIZED, and finalizes it; with that level, its calls and strata's must not be
/// made at the same time.
///
/// Calls never block in MPI: a wait is busy for at most 0.3 ms (longer while tensors travel), then
/// looks ten thousand times a second. It ends when the others come, at the deadline, when `failed`
/// or the call's `stop` is requested, and when `bootstrap` has failed. mpirun itself kills all
/// ranks where one dies, by default. Where a call fails while tensors travel, MPI may
/// still write into them: they are kept until the process ends.
///
/// @param bootstrap  Between the same ranks, which may have any numbers in MPI_COMM_WORLD; used to
///   set up, to tell the others of a failure, and asked for its status while waiting.
/// @throws Error, the same on all ranks:  kUnimplemented: this build has no MPI.
///   kFailedPrecondition: a process was not started by mpirun, mpiexec or srun, or not with the
///   others; its MPI is initialised for one thread alone, is finalized, or hangs since an earlier
///   set-up. kUnavailable: MPI's own errors. Others: what `bootstrap` throws, kDeadlineExceeded.
/// Threads: as Communicator; large tensors of several calls travel one after the other. Ids of
///   calls: below half of MPI_TAG_UB, which is at least 32767.
/// Cost: a call is a message to each other rank; larger ones are one more of rank 0's, and in fixed
///   order 2(n-1)/n * bytes sent per rank where a rank's replicas are one subtree of the tree.
std::shared_ptr<Communicator> make_mpi_communicator(std::shared_ptr<Communicator> bootstrap,
                                                    const MpiOptions& options = {});

/// Whether this build has it.
bool has_mpi_communicator();

}  // namespace strata::collective
