#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/cluster_spec.h"
#include "strata/cluster/server.h"
#include "strata/cluster/task_id.h"
#include "strata/core/export.h"
#include "strata/data/dataset.h"
#include "strata/data/iterator.h"
#include "strata/ps/coordinator_counts.h"
#include "strata/ps/function_registry.h"
#include "strata/ps/per_worker_values.h"
#include "strata/ps/remote_value.h"
#include "strata/ps/value.h"
#include "strata/ps/worker_server.h"
#include "strata/wire/deadline.h"

namespace strata {
namespace ps {
class Coordinator;
}  // namespace ps

/// The same in all tasks.
struct ClusterCoordinatorOptions {
  /// Which tasks there are, and which this one is; null: `cluster::detect_cluster_resolver()`
  /// (TF_CONFIG and so on). The chief coordinates.
  std::shared_ptr<cluster::ClusterResolver> cluster_resolver = {};
  /// Wire, TLS and liveness interval; wire and certificates left out: STRATA_WIRE, STRATA_TLS_DIR.
  /// The coordinator does not listen.
  cluster::ServerOptions server = {};
  /// How long work waits while no worker is connected, since the start or since the last one was
  /// lost; then it ends with kUnavailable.
  std::chrono::nanoseconds worker_timeout = std::chrono::hours(1);
  /// How long a worker waits for a coordinator, at the start and for one that was lost.
  std::chrono::nanoseconds coordinator_timeout = std::chrono::hours(1);
  /// So many functions run at once on a worker; they and the objects that they take must stand
  /// that.
  int worker_threads = 1;
  /// So many calls may wait for their turn; `schedule` waits while there are as many.
  size_t queue_size = size_t{256} << 10;
  /// At most so many calls are at a worker at once, of which `worker_threads` run: so many only
  /// where functions take less time than the way there and back. 1: never more than run.
  int max_in_flight = 64;
};

namespace detail {

template <typename R, bool WithContext, typename... Args, typename F>
auto iterator_factory(std::type_identity<ps::detail::Signature<R, WithContext, Args...>>, F make) {
  static_assert(std::same_as<std::remove_cvref_t<R>, data::Dataset>,
                "register_dataset takes a function that returns a data::Dataset");
  if constexpr (WithContext) {
    return [make](const ps::CallContext& context, Args... args) mutable {
      return make(context, std::forward<Args>(args)...).iterator(0);
    };
  } else {
    return [make](Args... args) mutable { return make(std::forward<Args>(args)...).iterator(0); };
  }
}

}  // namespace detail

/// Registers `make`, which returns a data::Dataset, for
/// ClusterCoordinator::create_per_worker_dataset: called on each worker, whose functions take the
/// iterator over it as a parameter `data::Iterator&`. With a first parameter `const
/// ps::CallContext&` it can read the worker's own part:
///
///     register_dataset(registry, "train", [](const ps::CallContext& context, int64_t batch) {
///       return samples.shard(context.num_workers(), context.worker().index).repeat().batch(batch);
///     });
///
/// @throws Error  as ps::FunctionRegistry::add.
template <typename F>
void register_dataset(ps::FunctionRegistry& registry, std::string name, F make) {
  static_assert(ps::detail::HasSignature<F>,
                "register_dataset takes a function with parameters of one type each");
  using Signature = typename ps::detail::Callable<F>::type;
  registry.add_resource(std::move(name),
                        detail::iterator_factory(std::type_identity<Signature>(), std::move(make)));
}

/// If this task is a worker: calls functions of `registry` until the coordinator says the end.
/// @return false, at once: it is none.
/// @throws Error  kInvalidArgument: no cluster, bad options. kUnavailable: no coordinator for
///   `coordinator_timeout`.
STRATA_API bool serve_worker(const ps::FunctionRegistry& registry,
                             const ClusterCoordinatorOptions& options = {});

/// The program of the chief, which has functions called on workers. One binary is all tasks:
///
///     int main() {
///       ps::FunctionRegistry registry;
///       register_all(registry);
///       if (serve_worker(registry)) return 0;
///       ClusterCoordinator coordinator(registry);
///       PerWorkerValues batches = coordinator.create_per_worker_dataset("train", {64});
///       for (int step = 0; step < 1000; ++step) coordinator.schedule("train_step", {batches});
///       coordinator.join();
///       coordinator.shutdown();
///     }
///
/// Calls start in the order in which they were scheduled, each at a worker that is free, and run at
/// least once: calls of a worker that is lost (its connection breaks, or it is silent for
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
/// no caller waits. Source: tf.distribute.coordinator.ClusterCoordinator; docs/coordinator.md.
class STRATA_API ClusterCoordinator {
 public:
  using RemoteValue = ps::RemoteValue<>;
  using PerWorkerValues = ps::PerWorkerValues;
  using Value = ps::Value;

  /// Starts to connect to the workers, and returns at once.
  /// @throws Error  kInvalidArgument: no cluster, no workers, this task is not the chief, bad
  ///   options; as cluster::Server.
  explicit ClusterCoordinator(const ps::FunctionRegistry& registry,
                              const ClusterCoordinatorOptions& options = {});
  /// The same for a cluster that the program names itself; `options.cluster_resolver` is not used.
  /// @param spec  Its tasks of the job "worker" run a ps::WorkerServer, or `serve_worker`.
  /// @param task  This task, which may be any but a worker and need not be in `spec`; workers expect
  ///   ps::WorkerOptions::coordinator.
  ClusterCoordinator(const cluster::ClusterSpec& spec, const cluster::TaskId& task,
                     const ps::FunctionRegistry& registry,
                     const ClusterCoordinatorOptions& options = {});
  /// Without `shutdown` before, the workers take it for lost, and wait for it to come back.
  ~ClusterCoordinator();
  ClusterCoordinator(const ClusterCoordinator&) = delete;
  ClusterCoordinator& operator=(const ClusterCoordinator&) = delete;

  /// Has `function` called on some worker. Returns at once; waits only while the queue is full.
  /// Tensors are not copied: do not change them in place before the call has ended.
  /// @throws Error  kNotFound, kInvalidArgument: no such function, arguments that it does not take;
  ///   nothing is scheduled, and no error is used up. kDeadlineExceeded: the queue stays full.
  ///   Otherwise the error that is to be raised.
  RemoteValue schedule(std::string_view function, std::vector<Value> arguments = {},
                       wire::Deadline deadline = wire::Deadline::after(kNoLimit));
  /// The same by what FunctionRegistry::add has returned: the types of arguments and result are
  /// checked when the call is compiled.
  ///
  ///     const auto play = registry.add("play", [](CartPole& cart, double distance) {...});
  ///     ps::RemoteValue<double> steps = coordinator.schedule(play, carts, 0.5);
  ///
  /// @throws Error  as by name.
  template <typename R, typename... Parameters, typename... Arguments>
  requires(sizeof...(Parameters) == sizeof...(Arguments))
      ps::RemoteValue<std::remove_cvref_t<R>> schedule(
          const ps::RemoteFunction<R(Parameters...)>& function, const Arguments&... arguments) {
    return ps::RemoteValue<std::remove_cvref_t<R>>(
        schedule(function.name(), {ps::detail::to_argument<Parameters>(arguments)...}).handle());
  }
  /// Waits until all that was scheduled has ended. Nothing runs when it returns or raises.
  /// @throws Error  the error that is to be raised. kDeadlineExceeded: says what is still running;
  ///   the work goes on.
  void join(wire::Deadline deadline = wire::Deadline::after(kNoLimit));
  /// Whether all that was scheduled has ended. @throws Error  the error that is to be raised.
  bool done();
  /// RemoteValue::fetch, also of many.
  Value fetch(const RemoteValue& value,
              wire::Deadline deadline = wire::Deadline::after(kNoLimit)) const;
  std::vector<Value> fetch(const std::vector<RemoteValue>& values,
                           wire::Deadline deadline = wire::Deadline::after(kNoLimit)) const;

  /// An iterator on each worker over what `register_dataset`'s function gives there. A worker that
  /// was lost and came back begins anew; so does no other.
  /// @throws Error  kInvalidArgument: `name` is of no dataset; as create_per_worker_values.
  PerWorkerValues create_per_worker_dataset(std::string_view name,
                                            std::vector<Value> arguments = {});
  /// Has the function or factory called once on each worker, those that come later or come back
  /// among them, before the calls that take its result. What it throws on a worker is logged here,
  /// and is the error of each call that takes the value there; other calls do not see it.
  /// @throws Error  kNotFound, kInvalidArgument: as `schedule`.
  PerWorkerValues create_per_worker_values(std::string_view name,
                                           std::vector<Value> arguments = {});

  int num_workers() const;
  /// Workers that take calls now.
  int num_ready_workers() const;
  /// Waits until so many do. @throws Error  kDeadlineExceeded: says why the others do not. What
  ///   `join` raises, if that comes first: that a worker has other functions, say.
  void wait_for_workers(int count, wire::Deadline deadline);
  ps::CoordinatorCounts counts() const;
  /// The orderly end: what waits is cancelled, what runs is waited for, and the workers' `join`
  /// returns; one that is away has a second to come and hear it. Call it when the work is done, or
  /// given up. Never throws for what others do; logs it.
  void shutdown(wire::Deadline deadline = wire::Deadline::after(std::chrono::seconds(60)));

  static constexpr std::chrono::hours kNoLimit = ps::detail::kNoFetchLimit;

 private:
  const ps::FunctionRegistry registry_;
  const std::unique_ptr<ps::Coordinator> coordinator_;
};

}  // namespace strata
