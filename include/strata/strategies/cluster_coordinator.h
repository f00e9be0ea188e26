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
#include "strata/core/export.h"
#include "strata/data/dataset.h"
#include "strata/data/iterator.h"
#include "strata/ps/function_registry.h"
#include "strata/ps/remote_value.h"
#include "strata/ps/value.h"
#include "strata/ps/worker_server.h"
#include "strata/wire/deadline.h"

namespace strata {
namespace ps {
class Coordinator;
}  // namespace ps

/// Options, the same in all tasks.
struct ClusterCoordinatorOptions {
  /// Finds the tasks and this process's own; null: `cluster::detect_cluster_resolver()` (TF_CONFIG
  /// and so on). The chief coordinates.
  std::shared_ptr<cluster::ClusterResolver> cluster_resolver = {};
  /// Wire, TLS and liveness interval. Defaults of wire and certificates: STRATA_WIRE,
  /// STRATA_TLS_DIR. The coordinator does not listen.
  cluster::ServerOptions server = {};
  /// The limit of calls' wait while no worker is connected, since the start or since the last one
  /// was lost; then they end with kUnavailable.
  std::chrono::nanoseconds worker_timeout = std::chrono::hours(1);
  /// The limit of a worker's wait for a coordinator, at the start and after one was lost.
  std::chrono::nanoseconds coordinator_timeout = std::chrono::hours(1);
  /// The number of functions that run at once on a worker; with more than one, they and their
  /// objects must be thread-safe.
  int worker_threads = 1;
  /// The largest number of queued calls; `schedule` waits while the queue is full.
  size_t queue_size = size_t{256} << 10;
  /// The largest number of calls that are sent to a worker at once, of which `worker_threads` run.
  /// A worker gets many only if functions take less time than a round trip. 1: never more than run.
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

/// In a worker, runs functions of `registry` until the coordinator shuts down.
/// @return false, at once: this task is no worker.
/// @throws Error  kInvalidArgument: no cluster, bad options. kUnavailable: no coordinator for
///   `coordinator_timeout`.
STRATA_API bool serve_worker(const ps::FunctionRegistry& registry,
                             const ClusterCoordinatorOptions& options = {});

/// The coordinator of the chief's program, which runs functions on workers. One binary is all
/// tasks:
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
  /// Does the same for a given cluster; `options.cluster_resolver` is ignored.
  /// @param spec  Its tasks of the job "worker" run a ps::WorkerServer, or `serve_worker`.
  /// @param task  This task, which may be any except a worker and need not be in `spec`; workers
  ///   expect ps::WorkerOptions::coordinator.
  ClusterCoordinator(const cluster::ClusterSpec& spec, const cluster::TaskId& task,
                     const ps::FunctionRegistry& registry,
                     const ClusterCoordinatorOptions& options = {});
  /// Without a `shutdown` before, the workers see it as lost, and wait for it to return.
  ~ClusterCoordinator();
  ClusterCoordinator(const ClusterCoordinator&) = delete;
  ClusterCoordinator& operator=(const ClusterCoordinator&) = delete;

  /// Schedules `function` on any worker. Returns at once; waits only while the queue is full.
  /// Tensors are not copied: do not change them in place before the call has ended.
  /// @throws Error  kNotFound, kInvalidArgument: no such function, arguments that it does not take;
  ///   nothing is scheduled, and a pending error stays. kDeadlineExceeded: the queue stays full.
  ///   Otherwise the pending error.
  RemoteValue schedule(std::string_view function, std::vector<Value> arguments = {},
                       wire::Deadline deadline = wire::Deadline::after(kNoLimit));
  /// Schedules the function that FunctionRegistry::add has returned: the types of arguments and
  /// result are checked when the call is compiled.
  ///
  ///     const auto play = registry.add("play", [](CartPole& cart, double distance) {...});
  ///     ps::RemoteValue<double> steps = coordinator.schedule(play, carts, 0.5);
  ///
  /// @throws Error  as the overload that takes a name.
  template <typename R, typename... Parameters, typename... Arguments>
  requires(sizeof...(Parameters) == sizeof...(Arguments))
      ps::RemoteValue<std::remove_cvref_t<R>> schedule(
          const ps::RemoteFunction<R(Parameters...)>& function, const Arguments&... arguments) {
    return ps::RemoteValue<std::remove_cvref_t<R>>(
        schedule(function.name(), {ps::detail::to_argument<Parameters>(arguments)...}).handle());
  }
  /// Waits until all scheduled calls have ended. Nothing runs when it returns or raises.
  /// @throws Error  the pending error. kDeadlineExceeded: names the running calls, which continue.
  void join(wire::Deadline deadline = wire::Deadline::after(kNoLimit));
  /// True if all scheduled calls have ended. @throws Error  the pending error.
  bool done();
  /// See RemoteValue::fetch; also for many values.
  Value fetch(const RemoteValue& value,
              wire::Deadline deadline = wire::Deadline::after(kNoLimit)) const;
  std::vector<Value> fetch(const std::vector<RemoteValue>& values,
                           wire::Deadline deadline = wire::Deadline::after(kNoLimit)) const;

  /// Makes an iterator on each worker over the dataset that `register_dataset`'s function returns
  /// there. A worker that was lost and reconnected begins anew; the others continue.
  /// @throws Error  kInvalidArgument: `name` is no dataset's; as create_per_worker_values.
  PerWorkerValues create_per_worker_dataset(std::string_view name,
                                            std::vector<Value> arguments = {});
  /// Calls the function or factory once on each worker, also on those that connect or reconnect
  /// later, before the calls that take its result. Its exception on a worker is logged here, and is
  /// the error of each call that takes the value there; other calls do not see it.
  /// @throws Error  kNotFound, kInvalidArgument: as `schedule`.
  PerWorkerValues create_per_worker_values(std::string_view name,
                                           std::vector<Value> arguments = {});

  int num_workers() const;
  /// The number of workers that take calls now.
  int num_ready_workers() const;
  /// Waits for `count` ready workers. @throws Error  kDeadlineExceeded: has the reason of each
  /// missing worker. An error that `join` would raise, if that happens first: for example that a
  /// worker has other functions.
  void wait_for_workers(int count, wire::Deadline deadline);
  ps::CoordinatorCounts counts() const;
  /// Shuts down in an orderly way: cancels queued calls, waits for running ones, and lets the
  /// workers' `join` return; a disconnected worker has a second to reconnect and be informed. Call
  /// it when the work is done or abandoned. Errors of workers are logged, not thrown.
  void shutdown(wire::Deadline deadline = wire::Deadline::after(std::chrono::seconds(60)));

  static constexpr std::chrono::hours kNoLimit = ps::detail::kNoFetchLimit;

 private:
  const ps::FunctionRegistry registry_;
  const std::unique_ptr<ps::Coordinator> coordinator_;
};

}  // namespace strata
