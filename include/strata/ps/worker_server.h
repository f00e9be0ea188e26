#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "strata/cluster/cluster_spec.h"
#include "strata/cluster/server.h"
#include "strata/core/export.h"
#include "strata/ps/function_registry.h"

namespace strata::ps {

struct WorkerOptions {
  /// Wire, TLS, liveness interval and listen address, the same in all tasks.
  cluster::ServerOptions server = {};
  /// The one task that may coordinate; every other one is refused, even with a certificate of the
  /// job. It need not be in the cluster.
  cluster::TaskId coordinator = {"chief", 0};
  /// The limit of `join`'s wait for a coordinator: at the start, and after one was lost.
  std::chrono::nanoseconds coordinator_timeout = std::chrono::hours(1);
  /// The number of functions that run at once. With more than one, functions and objects must be
  /// thread-safe.
  int threads = 1;
};

/// The worker side of a ClusterCoordinator: listens at the task's address, and runs the functions
/// that are called.
///
/// It serves one coordinator at a time, and refuses others meanwhile. A coordinator is lost when
/// its connection breaks, or when it is silent for ServerOptions::liveness: queued calls are then
/// dropped, running ones are asked to stop (CallContext::stop), per-worker objects are destroyed
/// when those have ended, and `join` waits for it to reconnect, or for another one.
///
/// Threads: any. Source: tf.distribute.Server on a worker of a ClusterCoordinator.
class STRATA_API WorkerServer {
 public:
  /// Listens. @throws Error  kInvalidArgument: `task` is no worker of `spec`, bad options; as
  /// cluster::Server.
  WorkerServer(const cluster::ClusterSpec& spec, const cluster::TaskId& task,
               const FunctionRegistry& registry, WorkerOptions options = {});
  /// Without an orderly end before, a coordinator sees this worker as lost.
  ~WorkerServer();
  WorkerServer(const WorkerServer&) = delete;
  WorkerServer& operator=(const WorkerServer&) = delete;

  /// The address it listens at, with the real port.
  const std::string& address() const;

  /// Runs functions, on this thread and `threads - 1` more, until the coordinator shuts down
  /// (ClusterCoordinator::shutdown). At most once.
  /// @throws Error  kUnavailable: no coordinator for `coordinator_timeout`; has the error of the
  ///   last one. kCancelled (`stop`, Ctrl-C under an InterruptGuard): after the running functions
  ///   have ended.
  void join(std::stop_token stop = {});

  /// The number of functions called so far.
  uint64_t calls() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::ps
