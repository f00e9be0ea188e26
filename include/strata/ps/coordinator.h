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
  /// Wire, TLS and liveness interval, the same in all tasks. It does not listen.
  cluster::ServerOptions server = {};
  /// While every worker is away for so long, one that was never there among them, the work waits;
  /// then it ends with kUnavailable.
  std::chrono::nanoseconds worker_timeout = std::chrono::hours(1);
  /// So many calls may wait for their turn; `schedule` waits while there are as many.
  size_t queue_size = size_t{256} << 10;
  /// At most so many calls are at a worker at once, of which one runs (WorkerOptions::threads): so
  /// many only where functions take less time than the way there and back. 1: never more than run.
  int max_in_flight = 64;
};

/// What has happened since the start.
struct CoordinatorCounts {
  uint64_t scheduled = 0;
  uint64_t finished = 0;   ///< functions that returned
  uint64_t failed = 0;     ///< functions that threw
  uint64_t cancelled = 0;  ///< before they ended
  uint64_t retried = 0;    ///< put back since their worker was lost
  uint64_t lost = 0;       ///< workers, each time
};

/// Has functions of a FunctionRegistry called on workers (WorkerServer), which come and go: one
/// program decides, and the workers do what they are told, each at its own pace.
///
/// Calls start in the order in which they were scheduled, each at a worker that is free, and run at
/// least once: those of a worker that is lost (its connection breaks, or it is silent for
/// ServerOptions::liveness) are put back in front, and a call that was cut off, or whose answer was
/// lost, runs again. A worker that comes back, or comes late, takes part from then on.
///
/// What a function throws is raised once, by the next `schedule`, `join` or `done`, in place of its
/// own work: before, all that waits has been cancelled, and what ran has ended. Then the
/// coordinator is as new. A parameter server that is lost is such an error, again and again.
///
/// Ctrl-C under an InterruptGuard ends every wait with kCancelled.
///
/// Threads: any; `schedule` keeps each thread's order. A thread of its own keeps work going while
/// nobody waits here. Source: tf.distribute.coordinator.ClusterCoordinator.
class STRATA_API Coordinator {
 public:
  /// Starts to connect to the workers of `spec` (job "worker"), and returns at once.
  /// @param task  This task; mostly the chief. Need not be in `spec`.
  /// @throws Error  kInvalidArgument: no workers in `spec`, `task` is one of them, bad options; as
  ///   cluster::Server.
  Coordinator(const cluster::ClusterSpec& spec, const cluster::TaskId& task,
              const FunctionRegistry& registry, CoordinatorOptions options = {});
  /// Without `shutdown` before, the workers take it for lost, and wait for it to come back.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// Has `function` called on some worker. Returns at once; waits only while the queue is full.
  /// Tensors are not copied: do not change them in place before the call has ended.
  /// @throws Error  kNotFound, kInvalidArgument: no such function, arguments that it does not take;
  ///   nothing is scheduled, and no error is used up. kDeadlineExceeded: the queue stays full.
  ///   Otherwise the error that is to be raised.
  RemoteValue<> schedule(std::string_view function, std::vector<Value> arguments = {},
                         wire::Deadline deadline = wire::Deadline::after(kNoLimit));

  /// The same by what FunctionRegistry::add has returned: the types of arguments and result are
  /// checked when the call is compiled.
  ///
  ///     const auto play = registry.add("play", [](CartPole& cart, double distance) {...});
  ///     RemoteValue<double> steps = coordinator.schedule(play, carts, 0.5);
  ///
  /// @throws Error  as by name.
  template <typename R, typename... Parameters, typename... Arguments>
  requires(sizeof...(Parameters) == sizeof...(Arguments))
      RemoteValue<std::remove_cvref_t<R>> schedule(const RemoteFunction<R(Parameters...)>& function,
                                                   const Arguments&... arguments) {
    return RemoteValue<std::remove_cvref_t<R>>(
        schedule(function.name(), {detail::to_argument<Parameters>(arguments)...}).handle());
  }

  /// Waits until all that was scheduled has ended. Nothing runs when it returns or raises.
  /// @throws Error  the error that is to be raised. kDeadlineExceeded: says what is still running;
  ///   the work goes on.
  void join(wire::Deadline deadline = wire::Deadline::after(kNoLimit));

  /// Whether all that was scheduled has ended. @throws Error  the error that is to be raised.
  bool done();

  /// RemoteValue::fetch, also of many.
  Value fetch(const RemoteValue<>& value,
              wire::Deadline deadline = wire::Deadline::after(kNoLimit)) const {
    return value.fetch(deadline);
  }
  std::vector<Value> fetch(const std::vector<RemoteValue<>>& values,
                           wire::Deadline deadline = wire::Deadline::after(kNoLimit)) const;

  /// Has the factory or function called once on each worker, those that come later or come back
  /// among them, before the calls that take its result. What it throws on a worker is logged here,
  /// and is the error of each call that takes the value there; other calls do not see it.
  /// @throws Error  kNotFound, kInvalidArgument: as `schedule`.
  PerWorkerValues create_per_worker(std::string_view function, std::vector<Value> arguments = {});

  int num_workers() const;
  /// Workers that take calls now. Threads: any.
  int num_ready_workers() const;
  /// Waits until so many do. @throws Error  kDeadlineExceeded: says why the others do not. What
  ///   `join` raises, if that comes first: that a worker has other functions, say.
  void wait_for_workers(int count, wire::Deadline deadline);

  CoordinatorCounts counts() const;

  /// The orderly end: what waits is cancelled, what runs is waited for, and the workers' `join`
  /// returns; one that is away has a second to come and hear it. Call it when the work is done, or
  /// given up. Never throws for what others do; logs it.
  void shutdown(wire::Deadline deadline = wire::Deadline::after(std::chrono::seconds(60)));

  static constexpr std::chrono::hours kNoLimit = detail::kNoFetchLimit;

 private:
  std::shared_ptr<detail::CoordinatorCore> core_;
};

}  // namespace strata::ps
