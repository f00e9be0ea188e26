#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "strata/cluster/cluster_spec.h"
#include "strata/cluster/server.h"
#include "strata/cluster/task_id.h"
#include "strata/core/export.h"
#include "strata/ps/function_registry.h"

namespace strata::ps {

struct WorkerOptions {
  /// Wire, TLS, liveness interval and where to listen, the same in all tasks.
  cluster::ServerOptions server = {};
  /// The one task that may coordinate; every other one is refused, with a certificate of the job
  /// too. Need not be in the cluster.
  cluster::TaskId coordinator = {"chief", 0};
  /// How long `join` waits for a coordinator: at the start, and for one that was lost.
  std::chrono::nanoseconds coordinator_timeout = std::chrono::hours(1);
  /// So many functions run at once. More than one: functions and objects must stand that.
  int threads = 1;
};

/// The side of a ClusterCoordinator's functions: listens at the task's address, and calls what it is told.
///
/// It serves one coordinator at a time, and refuses others meanwhile. When its connection breaks,
/// or it is silent for ServerOptions::liveness, it is lost: what waits is dropped, what runs is
/// asked to stop (CallContext::stop), per-worker objects go when it has ended, and `join` waits for
/// it or another one, started anew, to come.
///
/// Threads: any. Source: tf.distribute.Server on a worker of a ClusterCoordinator.
class STRATA_API WorkerServer {
 public:
  /// Listens. @throws Error  kInvalidArgument: `task` is no worker of `spec`, bad options; as
  /// cluster::Server.
  WorkerServer(const cluster::ClusterSpec& spec, const cluster::TaskId& task,
               const FunctionRegistry& registry, WorkerOptions options = {});
  /// A coordinator sees it lost, unless it said the end.
  ~WorkerServer();
  WorkerServer(const WorkerServer&) = delete;
  WorkerServer& operator=(const WorkerServer&) = delete;

  /// Where it listens, with the real port.
  const std::string& address() const;

  /// Calls functions, on this thread and as many more as were asked for, until the coordinator says
  /// the end (ClusterCoordinator::shutdown). At most once.
  /// @throws Error  kUnavailable: no coordinator for `coordinator_timeout`; says what the last one
  ///   met. kCancelled (`stop`, Ctrl-C under an InterruptGuard): after the functions that
  ///   run have ended.
  void join(std::stop_token stop = {});

  /// Functions that were called so far.
  uint64_t calls() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::ps
