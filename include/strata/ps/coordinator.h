#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "strata/cluster/cluster_spec.h"
#include "strata/cluster/server.h"
#include "strata/cluster/task_id.h"
#include "strata/core/export.h"
#include "strata/ps/function_registry.h"
#include "strata/ps/per_worker_values.h"
#include "strata/ps/remote_value.h"
#include "strata/ps/value.h"
#include "strata/wire/deadline.h"

namespace strata::ps {

struct CoordinatorOptions {
  /// Wire, TLS and liveness interval, the same in all tasks. The coordinator does not listen.
  cluster::ServerOptions server = {};
  /// While every worker is disconnected (or has not connected yet), calls wait for this long; then
  /// they end with kUnavailable.
  std::chrono::nanoseconds worker_timeout = std::chrono::hours(1);
  /// The largest number of queued calls; `schedule` waits while the queue is full.
  size_t queue_size = size_t{256} << 10;
  /// The largest number of calls that are sent to a worker at once, of which one runs
  /// (WorkerOptions::threads). A worker gets many only if functions take less time than a round
  /// trip. 1: one at a time.
  int max_in_flight = 64;
};

/// Counters since the start.
struct CoordinatorCounts {
  uint64_t scheduled = 0;
  uint64_t finished = 0;   ///< functions that returned
  uint64_t failed = 0;     ///< functions that threw
  uint64_t cancelled = 0;  ///< before they ended
  uint64_t retried = 0;    ///< requeued since their worker was lost
  uint64_t lost = 0;       ///< lost workers, each time
};

/// Runs functions of a FunctionRegistry on workers (WorkerServer), which may join and leave: one
/// program schedules calls, and each worker runs them at its own pace.
///
/// Calls start in the order in which they were scheduled, each on a free worker, and run at least
/// once: the calls of a lost worker (its connection breaks, or it is silent for
/// ServerOptions::liveness) are requeued in front, and a call that was interrupted, or whose reply
/// was lost, runs again. A worker that reconnects, or connects late, takes part from then on.
///
/// An exception of a function is raised once, by the next `schedule`, `join` or `done`, in place of
/// its own work. Before that, queued calls are cancelled, and running ones have ended. Afterwards
/// the coordinator can be used again. A lost parameter server raises such an error each time.
///
/// Ctrl-C under an InterruptGuard ends every wait with kCancelled.
///
/// Threads: any; `schedule` keeps each thread's order. A progress thread keeps work going while no
/// call waits here. Source: tf.distribute.coordinator.ClusterCoordinator.
class STRATA_API Coordinator {
 public:
  /// Starts to connect to the workers of `spec` (job "worker"), and returns at once.
  /// @param task  This task, usually the chief. It need not be in `spec`.
  /// @throws Error  kInvalidArgument: no workers in `spec`, `task` is one of them, bad options; as
  ///   cluster::Server.
  Coordinator(const cluster::ClusterSpec& spec, const cluster::TaskId& task,
              const FunctionRegistry& registry, CoordinatorOptions options = {});
  /// Without a `shutdown` before, the workers see it as lost, and wait for it to return.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// Schedules `function` on any worker. Returns at once; waits only while the queue is full.
  /// Tensors are not copied: do not change them in place before the call has ended.
  /// @throws Error  kNotFound, kInvalidArgument: no such function, arguments that it does not take;
  ///   nothing is scheduled, and a pending error stays. kDeadlineExceeded: the queue stays full.
  ///   Otherwise the pending error.
  RemoteValue<> schedule(std::string_view function, std::vector<Value> arguments = {},
                         wire::Deadline deadline = wire::Deadline::after(kNoLimit));

  /// Schedules the function that FunctionRegistry::add has returned: the types of arguments and
  /// result are checked when the call is compiled.
  ///
  ///     const auto play = registry.add("play", [](CartPole& cart, double distance) {...});
  ///     RemoteValue<double> steps = coordinator.schedule(play, carts, 0.5);
  ///
  /// @throws Error  as the overload that takes a name.
  template <typename R, typename... Parameters, typename... Arguments>
  requires(sizeof...(Parameters) == sizeof...(Arguments))
      RemoteValue<std::remove_cvref_t<R>> schedule(const RemoteFunction<R(Parameters...)>& function,
                                                   const Arguments&... arguments) {
    return RemoteValue<std::remove_cvref_t<R>>(
        schedule(function.name(), {detail::to_argument<Parameters>(arguments)...}).handle());
  }

  /// Waits until all scheduled calls have ended. Nothing runs when it returns or raises.
  /// @throws Error  the pending error. kDeadlineExceeded: names the running calls, which continue.
  void join(wire::Deadline deadline = wire::Deadline::after(kNoLimit));

  /// True if all scheduled calls have ended. @throws Error  the pending error.
  bool done();

  /// See RemoteValue::fetch; also for many values.
  Value fetch(const RemoteValue<>& value,
              wire::Deadline deadline = wire::Deadline::after(kNoLimit)) const {
    return value.fetch(deadline);
  }
  std::vector<Value> fetch(const std::vector<RemoteValue<>>& values,
                           wire::Deadline deadline = wire::Deadline::after(kNoLimit)) const;

  /// Calls the factory or function once on each worker, also on those that connect or reconnect
  /// later, before the calls that take its result. Its exception on a worker is logged here, and is
  /// the error of each call that takes the value there; other calls do not see it.
  /// @throws Error  kNotFound, kInvalidArgument: as `schedule`.
  PerWorkerValues create_per_worker(std::string_view function, std::vector<Value> arguments = {});

  int num_workers() const;
  /// The number of workers that take calls now. Threads: any.
  int num_ready_workers() const;
  /// Waits for `count` ready workers. @throws Error  kDeadlineExceeded: has the reason of each
  /// missing worker. An error that `join` would raise, if that happens first: for example that a
  /// worker has other functions.
  void wait_for_workers(int count, wire::Deadline deadline);

  CoordinatorCounts counts() const;

  /// Shuts down in an orderly way: cancels queued calls, waits for running ones, and lets the
  /// workers' `join` return; a disconnected worker has a second to reconnect and be informed. Call
  /// it when the work is done or abandoned. Errors of workers are logged, not thrown.
  void shutdown(wire::Deadline deadline = wire::Deadline::after(std::chrono::seconds(60)));

  static constexpr std::chrono::hours kNoLimit = detail::kNoFetchLimit;

 private:
  std::shared_ptr<detail::CoordinatorCore> core_;
};

}  // namespace strata::ps
