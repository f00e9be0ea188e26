// ClusterCoordinator over memory: datasets that each worker reads for itself, the roles of a
// binary.
#include "strata/strategies/cluster_coordinator.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "core/thread.h"
#include "strata/cluster/resolvers.h"
#include "support/replicas.h"
#include "support/thread_cluster.h"

namespace strata {
namespace {

using cluster::TaskId;
using test::soon;
using test::ThreadCluster;

/// The tasks of one binary, as threads.
class Tasks {
 public:
  explicit Tasks(const std::map<std::string, int>& jobs) : spec_(ThreadCluster::spec_of(jobs)) {}

  ClusterCoordinatorOptions options(const TaskId& task) {
    ClusterCoordinatorOptions options;
    options.cluster_resolver = std::make_shared<cluster::SimpleResolver>(
        spec_, cluster::SimpleOptions{.task_type = task.job, .task_id = task.index});
    options.server.transport = network_.transport(ThreadCluster::host_of(task));
    options.coordinator_timeout = std::chrono::seconds(60);
    return options;
  }
  Thread serve(const ps::FunctionRegistry& registry, int index) {
    return Thread("worker", [this, registry, index] {
      EXPECT_TRUE(serve_worker(registry, options({"worker", index})));
    });
  }
  wire::MemoryNetwork& network() { return network_; }

 private:
  wire::MemoryNetwork network_;
  const cluster::ClusterSpec spec_;
};

int64_t first_of(const data::Example& example) { return example[0].item<int64_t>(); }

TEST(ClusterCoordinatorTest, EachWorkerReadsItsOwnIterator) {
  Tasks tasks({{"chief", 1}, {"worker", 2}});
  ps::FunctionRegistry registry;
  register_dataset(registry, "part", [](const ps::CallContext& context, int64_t stop) {
    return data::Dataset::range(stop).shard(context.num_workers(), context.worker().index);
  });
  register_dataset(registry, "all", [](int64_t stop) { return data::Dataset::range(stop); });
  registry.add("next", [](data::Iterator& samples) {
    const auto sample = samples.next();
    STRATA_CHECK(sample.has_value(), kOutOfRange, "the end");
    return first_of(*sample);
  });
  registry.add("index", [](const ps::CallContext& context) { return context.worker().index; });
  registry.add("sum", [](data::Iterator& samples, int64_t index) {
    int64_t sum = 0;
    while (const auto sample = samples.next()) sum += first_of(*sample);
    return std::pair(index, sum);
  });
  Thread workers[] = {tasks.serve(registry, 0), tasks.serve(registry, 1)};
  ClusterCoordinator coordinator(registry, tasks.options({"chief", 0}));
  EXPECT_EQ(coordinator.num_workers(), 2);
  coordinator.wait_for_workers(2, soon());
  const ps::PerWorkerValues part = coordinator.create_per_worker_dataset("part", {100});
  std::set<int64_t> seen;
  std::vector<ps::RemoteValue<>> results;
  for (int i = 0; i < 40; ++i) results.push_back(coordinator.schedule("next", {part}));
  coordinator.join(soon());
  for (const ps::Value& each : coordinator.fetch(results)) seen.insert(each.as_int());
  EXPECT_EQ(seen.size(), 40U);  // no sample twice

  // What a function gives on each worker.
  const ps::PerWorkerValues index = coordinator.create_per_worker_values("index");
  const ps::PerWorkerValues all = coordinator.create_per_worker_dataset("all", {10});
  const ps::Value sum = coordinator.schedule("sum", {all, index}).fetch(soon());
  EXPECT_EQ(sum.list().at(1).as_int(), 45);

  // The end of the data is the function's to see; here it is an error.
  for (int i = 0; i < 200 && !coordinator.done(); ++i) {
  }
  EXPECT_TRUE(throws(ErrorCode::kOutOfRange, {"[ps] next on /job:worker/task:", "the end"}, [&] {
    for (int i = 0; i < 200; ++i) coordinator.schedule("next", {part});
    coordinator.join(soon());
  }));
  coordinator.shutdown(soon());
}

TEST(ClusterCoordinatorTest, AWorkerThatCameBackReadsFromTheBeginning) {
  Tasks tasks({{"chief", 1}, {"worker", 1}});
  ps::FunctionRegistry registry;
  register_dataset(registry, "samples", [] { return data::Dataset::range(100); });
  registry.add("next", [](data::Iterator& samples) { return first_of(*samples.next()); });
  const Thread worker = tasks.serve(registry, 0);
  ClusterCoordinator coordinator(registry, tasks.options({"chief", 0}));
  const ps::PerWorkerValues samples = coordinator.create_per_worker_dataset("samples");
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(coordinator.schedule("next", {samples}).get<int64_t>(soon()), i);
  }
  tasks.network().cut("chief-0", "worker-0");
  tasks.network().heal("chief-0", "worker-0");
  EXPECT_EQ(coordinator.schedule("next", {samples}).get<int64_t>(soon()), 0);
  EXPECT_EQ(coordinator.counts().lost, 1U);
  coordinator.shutdown(soon());
}

// No resolver, no chief in the cluster, and any task that the workers expect.
TEST(ClusterCoordinatorTest, AProgramMayNameItsClusterItself) {
  wire::MemoryNetwork network;
  const cluster::ClusterSpec spec = ThreadCluster::spec_of({{"worker", 1}});
  const TaskId task = {"evaluator", 3};
  ps::FunctionRegistry registry;
  const auto twice = registry.add("twice", [](int64_t number) { return 2 * number; });
  ps::WorkerServer worker(spec, {"worker", 0}, registry,
                          {.server = {.transport = network.transport("worker-0")},
                           .coordinator = task,
                           .coordinator_timeout = std::chrono::seconds(60)});
  const Thread thread("worker", [&worker] { worker.join(); });
  const ClusterCoordinatorOptions options = {
      .server = {.transport = network.transport("evaluator-3")}};
  ClusterCoordinator coordinator(spec, task, registry, options);
  EXPECT_EQ(coordinator.schedule(twice, int64_t{21}).fetch(soon()), 42);
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"[ps] Coordinator", "which is a worker"}, [&] {
    ClusterCoordinator(spec, {"worker", 0}, registry, options);
  }));
  coordinator.shutdown(soon());
}

TEST(ClusterCoordinatorTest, WrongTasksAndNamesAreNamed) {
  Tasks tasks({{"chief", 1}, {"worker", 1}, {"ps", 1}});
  ps::FunctionRegistry registry;
  registry.add("step", [] {});
  register_dataset(registry, "samples", [] { return data::Dataset::range(1); });
  EXPECT_FALSE(serve_worker(registry, tasks.options({"chief", 0})));
  EXPECT_FALSE(serve_worker(registry, tasks.options({"ps", 0})));
  for (const std::string job : {"worker", "ps"}) {
    EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                       {"[cluster_coordinator] ClusterCoordinator: got the task /job:" + job,
                        "expected the chief"},
                       [&] {
                         ClusterCoordinator(registry, tasks.options({job, 0}));
                       }));
  }
  ClusterCoordinatorOptions alone;
  alone.cluster_resolver = std::make_shared<cluster::SimpleResolver>(cluster::ClusterSpec());
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"[cluster_coordinator] serve_worker: got no cluster"},
                     [&] { serve_worker(registry, alone); }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"ClusterCoordinator: got no cluster"},
                     [&] { ClusterCoordinator(registry, alone); }));
  ClusterCoordinator coordinator(registry, tasks.options({"chief", 0}));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"create_per_worker_dataset: got \"step\"", "register_dataset"},
                     [&] { (void)coordinator.create_per_worker_dataset("step"); }));
  EXPECT_TRUE(throws(ErrorCode::kNotFound, {"\"other\"", "samples, step"},
                     [&] { (void)coordinator.create_per_worker_dataset("other"); }));
  EXPECT_EQ(coordinator.num_ready_workers(), 0);
}

}  // namespace
}  // namespace strata
