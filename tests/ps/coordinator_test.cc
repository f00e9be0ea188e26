// A coordinator and workers that are threads, over memory: what is called where, in which order,
// and what comes back. What goes wrong is in coordinator_failures_test.cc.
#include "ps/coordinator/coordinator.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "ps/worker_threads.h"
#include "support/replicas.h"

namespace strata::ps {
namespace {

using test::Gate;
using test::soon;
using test::WorkerThreads;
using namespace std::chrono_literals;

struct Counter {
  int64_t value = 0;
};

TEST(CoordinatorTest, ScheduleCallsAFunctionAndFetchBringsItsResult) {
  WorkerThreads cluster(2);
  cluster.registry().add("add", [](double a, double b) { return a + b; });
  cluster.registry().add("nothing", [] {});
  cluster.start();
  const auto coordinator = cluster.coordinator();
  const RemoteValue<> sum = coordinator->schedule("add", {1, 2.5});
  EXPECT_EQ(sum.fetch(soon()).as_double(), 3.5);
  EXPECT_EQ(sum.get<double>(soon()), 3.5);
  EXPECT_TRUE(sum.done());
  EXPECT_EQ(coordinator->fetch(coordinator->schedule("nothing"), soon()).kind(),
            Value::Kind::kNothing);
  coordinator->join(soon());
  EXPECT_TRUE(coordinator->done());
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"[ps] RemoteValue: got float64; expected Tensor"},
                     [&] { (void)sum.get<at::Tensor>(); }));
  coordinator->shutdown(soon());
  EXPECT_EQ(cluster.wait(0).message(), "");
  EXPECT_EQ(cluster.wait(1).message(), "");
}

TEST(CoordinatorTest, TypedCallsHaveTypedArgumentsAndResults) {
  WorkerThreads cluster(1);
  const auto add = cluster.registry().add("add", [](double a, double b) { return a + b; });
  const auto nothing = cluster.registry().add("nothing", [] {});
  const auto pair = cluster.registry().add(
      "pair", [](const std::string& text, int64_t number) { return std::tuple(number, text); });
  const auto up = cluster.registry().add("up", [](Counter& counter, std::vector<int64_t> by) {
    for (const int64_t each : by) counter.value += each;
    return counter.value;
  });
  cluster.registry().add_resource("counter", [] { return Counter(); });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  const RemoteValue<double> sum = coordinator->schedule(add, 1, 2.5F);
  EXPECT_EQ(sum.fetch(soon()), 3.5);
  coordinator->schedule(nothing).fetch(soon());
  EXPECT_EQ(coordinator->schedule(pair, "seven", 7).fetch(soon()), std::tuple(7, "seven"));
  const PerWorkerValues counters = coordinator->create_per_worker("counter");
  EXPECT_EQ(coordinator->schedule(up, counters, std::vector<int64_t>{1, 2}).fetch(soon()), 3);
  // A worker whose function of that name returns something else.
  const RemoteFunction<at::Tensor(double, double)> other("add");
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"[ps] RemoteValue: got float64; expected Tensor"},
                     [&] { (void)coordinator->schedule(other, 1, 2).fetch(soon()); }));
  coordinator->shutdown(soon());
  EXPECT_EQ(cluster.wait(0).message(), "");
}

TEST(CoordinatorTest, ManyCallsAreSharedOutAndAllEnd) {
  WorkerThreads cluster(3);
  cluster.registry().add("square", [](int64_t x) { return x * x; });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  coordinator->wait_for_workers(3, soon());
  std::vector<RemoteValue<>> results;
  for (int64_t i = 0; i < 5000; ++i) results.push_back(coordinator->schedule("square", {i}));
  coordinator->join(soon());
  const std::vector<Value> values = coordinator->fetch(results);
  for (int64_t i = 0; i < 5000; ++i) {
    ASSERT_TRUE(results[static_cast<size_t>(i)].done());
    ASSERT_EQ(values[static_cast<size_t>(i)].as_int(), i * i);
  }
  uint64_t calls = 0;
  for (int i = 0; i < 3; ++i) {
    EXPECT_GT(cluster.calls(i), 100U);
    calls += cluster.calls(i);
  }
  EXPECT_EQ(calls, 5000U);
  EXPECT_EQ(coordinator->counts().scheduled, 5000U);
  EXPECT_EQ(coordinator->counts().finished, 5000U);
  EXPECT_EQ(coordinator->counts().lost, 0U);
}

TEST(CoordinatorTest, OneWorkerRunsThemInTheirOrder) {
  WorkerThreads cluster(1);
  std::vector<int64_t> order;  // one worker, one thread
  cluster.registry().add("note", [&](int64_t i) { order.push_back(i); });
  const auto coordinator = cluster.coordinator();
  for (int64_t i = 0; i < 500; ++i) coordinator->schedule("note", {i});
  cluster.start();  // a late joiner: all wait for it
  coordinator->join(soon());
  ASSERT_EQ(order.size(), 500U);
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST(CoordinatorTest, TensorsOfAllSizesTravelBothWays) {
  for (const bool shuffle : {false, true}) {
    WorkerThreads cluster(2, {.shuffle = shuffle});
    cluster.registry().add("twice", [](const at::Tensor& x) { return x * 2; });
    cluster.registry().add("many", [](const std::vector<at::Tensor>& all) {
      std::vector<at::Tensor> out;
      for (const at::Tensor& each : all) out.push_back(each + 1);
      return out;
    });
    cluster.start();
    const auto coordinator = cluster.coordinator();
    std::vector<std::pair<at::Tensor, RemoteValue<>>> results;
    for (int round = 0; round < 10; ++round) {
      for (const int64_t size : {0, 1, 1000, 4097, 100'000, 600'000}) {
        const at::Tensor x = at::arange(size, at::kFloat) + round;
        results.emplace_back(x * 2, coordinator->schedule("twice", {x}));
        results.emplace_back(
            x + 1, coordinator->schedule("many", {std::vector<at::Tensor>{at::ones({3}), x, x}}));
      }
    }
    coordinator->join(soon());
    for (const auto& [expected, result] : results) {
      const Value value = result.fetch();
      if (value.kind() == Value::Kind::kTensor) {
        EXPECT_TRUE(at::equal(value.tensor(), expected));
      } else {
        EXPECT_TRUE(at::equal(value.list().at(0).tensor(), at::ones({3}) + 1));
        EXPECT_TRUE(at::equal(value.list().at(2).tensor(), expected));
      }
    }
  }
}

TEST(CoordinatorTest, ScheduleWaitsWhileTheQueueIsFull) {
  WorkerThreads cluster(1);
  Gate gate;
  cluster.registry().add("wait", [&](const CallContext& context) { gate.pass(context.stop()); });
  cluster.start();
  const auto coordinator = cluster.coordinator({.queue_size = 2, .max_in_flight = 1});
  coordinator->schedule("wait");
  ASSERT_TRUE(gate.wait_for(1));
  coordinator->schedule("wait");
  coordinator->schedule("wait");
  EXPECT_TRUE(throws(ErrorCode::kDeadlineExceeded,
                     {"[ps] schedule", "the queue was full (2 calls)"},
                     [&] { coordinator->schedule("wait", {}, wire::Deadline::after(50ms)); }));
  std::atomic<bool> scheduled = false;
  Thread another("schedules", [&] {
    coordinator->schedule("wait", {}, soon());
    scheduled = true;
  });
  EXPECT_FALSE(scheduled);
  EXPECT_FALSE(coordinator->done());
  gate.open();
  another.join();
  EXPECT_TRUE(scheduled);
  coordinator->join(soon());
  EXPECT_EQ(coordinator->counts().finished, 4U);
}

TEST(CoordinatorTest, PerWorkerObjectsAreEachWorkersOwn) {
  WorkerThreads cluster(2);
  cluster.registry().add_resource("counter", [](const CallContext& context, int64_t start) {
    return Counter{start + 1000 * context.worker().index};
  });
  cluster.registry().add("up", [](Counter& counter) { return ++counter.value; });
  cluster.registry().add("rank", [](const CallContext& context) { return context.worker().index; });
  Gate gate;
  cluster.registry().add("echo", [&](const CallContext& context, int64_t rank) {
    gate.pass(context.stop());
    return rank;
  });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  coordinator->wait_for_workers(2, soon());
  const PerWorkerValues counters = coordinator->create_per_worker("counter", {10});
  const PerWorkerValues ranks = coordinator->create_per_worker("rank");
  std::vector<RemoteValue<>> echoes = {coordinator->schedule("echo", {ranks}),
                                       coordinator->schedule("echo", {ranks})};
  ASSERT_TRUE(gate.wait_for(2));  // one at each
  gate.open();
  std::vector<RemoteValue<>> ups;
  for (int i = 0; i < 200; ++i) ups.push_back(coordinator->schedule("up", {counters}));
  coordinator->join(soon());
  std::vector<int64_t> next = {10, 1010};
  for (const RemoteValue<>& up : ups) {
    const int64_t value = up.get<int64_t>();
    const size_t worker = value > 1000 ? 1 : 0;
    EXPECT_GT(value, next[worker]);  // in its order at each
    next[worker] = value;
  }
  EXPECT_EQ(next[0] - 10 + next[1] - 1010, 200);
  std::set<int64_t> seen;
  for (const RemoteValue<>& echo : echoes) seen.insert(echo.get<int64_t>());
  EXPECT_EQ(seen, (std::set<int64_t>{0, 1}));
}

struct Counted {
  explicit Counted(std::atomic<int>& alive_in) : alive(&alive_in) { ++*alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --*alive; }
  std::atomic<int>* alive;
};

TEST(CoordinatorTest, ForgottenObjectsGoWhenTheirCallsHaveEnded) {
  WorkerThreads cluster(2);
  std::atomic<int> alive = 0;
  cluster.registry().add_resource("object", [&] { return std::make_unique<Counted>(alive); });
  cluster.registry().add("use", [](Counted& counted) { return counted.alive->load(); });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  coordinator->wait_for_workers(2, soon());
  std::vector<RemoteValue<>> uses;
  {
    const PerWorkerValues objects = coordinator->create_per_worker("object");
    for (int i = 0; i < 50; ++i) uses.push_back(coordinator->schedule("use", {objects}));
  }
  coordinator->join(soon());
  for (const RemoteValue<>& use : uses) EXPECT_GE(use.get<int64_t>(), 1);
  const auto deadline = soon();
  while (alive > 0 && !deadline.passed()) (void)coordinator->done();
  EXPECT_EQ(alive, 0);
}

TEST(CoordinatorTest, SeveralThreadsOfAWorkerRunFunctionsAtOnce) {
  WorkerThreads cluster(1);
  Gate gate;
  cluster.registry().add("meet",
                         [&](const CallContext& context) { return gate.pass(context.stop()); });
  cluster.start({.threads = 4});
  const auto coordinator = cluster.coordinator();
  std::vector<RemoteValue<>> all;
  for (int i = 0; i < 4; ++i) all.push_back(coordinator->schedule("meet"));
  EXPECT_TRUE(gate.wait_for(4));
  gate.open();
  coordinator->join(soon());
  for (const RemoteValue<>& each : all) EXPECT_TRUE(each.get<bool>());
}

// The first calls of a function are quick, and so many are sent ahead; then one takes long: those
// behind it go to the worker that has nothing to do.
TEST(CoordinatorTest, CallsBehindALongOneAreTakenBackForAFreeWorker) {
  WorkerThreads cluster(2);
  Gate gate;
  cluster.registry().add("work", [&](const CallContext& context, bool stay) {
    if (stay) gate.pass(context.stop());
    return context.worker().index;
  });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  coordinator->wait_for_workers(2, soon());
  for (int i = 0; i < 2000; ++i) coordinator->schedule("work", {false});
  coordinator->join(soon());
  for (int round = 0; round < 5; ++round) {
    std::vector<RemoteValue<>> rest;
    const RemoteValue<> stays = coordinator->schedule("work", {true});
    for (int i = 0; i < 200; ++i) rest.push_back(coordinator->schedule("work", {false}));
    for (const RemoteValue<>& each : rest) (void)each.fetch(soon());
    EXPECT_FALSE(stays.done());
    gate.open();
    coordinator->join(soon());
    gate.close();
  }
}

TEST(CoordinatorTest, WrongCallsAreRefusedAtOnce) {
  WorkerThreads cluster(1);
  cluster.registry().add("step", [](const at::Tensor&, int64_t) {});
  cluster.registry().add("up", [](Counter& counter) { return ++counter.value; });
  cluster.registry().add("one", [] { return 1; });
  cluster.registry().add_resource("counter", [] { return Counter{}; });
  cluster.registry().add_resource("text", [] { return std::string("x"); });
  const auto coordinator = cluster.coordinator();
  const auto refused = [&](ErrorCode code, const std::string& name, std::vector<Value> arguments,
                           std::initializer_list<std::string_view> parts) {
    EXPECT_TRUE(throws(code, parts, [&] { coordinator->schedule(name, arguments); }));
  };
  refused(ErrorCode::kNotFound, "stop", {}, {"\"stop\"", "counter, one, step, text, up"});
  refused(ErrorCode::kInvalidArgument, "step", {1},
          {"[ps] step: got 1 arguments; expected 2: (Tensor, int64)"});
  refused(ErrorCode::kInvalidArgument, "step", {1, 2},
          {"[ps] step: argument 0: got int64; expected Tensor"});
  refused(ErrorCode::kInvalidArgument, "step", {at::ones({1}), std::vector<double>{1.0}},
          {"argument 1: got list<float64>; expected int64"});
  refused(ErrorCode::kInvalidArgument, "up", {5}, {"argument 0: got int64; expected resource<"});
  refused(ErrorCode::kInvalidArgument, "up", {ResourceId{99}},
          {"a per-worker value that this coordinator does not have"});
  refused(ErrorCode::kInvalidArgument, "counter", {},
          {"makes per-worker objects; give it to create_per_worker"});
  const PerWorkerValues text = coordinator->create_per_worker("text");
  refused(ErrorCode::kInvalidArgument, "up", {text},
          {"the per-worker value \"text\", a resource<", "expected resource<"});
  const PerWorkerValues one = coordinator->create_per_worker("one");
  refused(ErrorCode::kInvalidArgument, "up", {one}, {"\"one\", which is no object"});
  refused(ErrorCode::kInvalidArgument, "step", {Value::List{one}, 1}, {"within a list"});
  EXPECT_EQ(coordinator->counts().scheduled, 0U);
}

TEST(CoordinatorTest, WrongOptionsAreNamed) {
  WorkerThreads cluster(1);
  const auto make = [&](const cluster::ClusterSpec& spec, const cluster::TaskId& task,
                        const CoordinatorOptions& options) {
    CoordinatorOptions own = options;
    own.server.transport = cluster.network().transport("chief-0");
    const Coordinator coordinator(spec, task, cluster.registry(), own);
  };
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"got the task /job:worker/task:0"}, [&] {
    make(cluster.spec(), {"worker", 0}, {});
  }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"a cluster without workers"}, [&] {
    make(cluster::ClusterSpec({{"chief", {"a:1"}}}), {"chief", 0}, {});
  }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"queue_size of 0"}, [&] {
    make(cluster.spec(), {"chief", 0}, {.queue_size = 0});
  }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"max_in_flight 0"}, [&] {
    make(cluster.spec(), {"chief", 0}, {.max_in_flight = 0});
  }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"liveness interval of 0.01 s"}, [&] {
    make(cluster.spec(), {"chief", 0}, {.server = {.liveness = 10ms}});
  }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"port 0 for /job:worker/task:0"}, [&] {
    make(cluster::ClusterSpec({{"worker", {"a:0"}}}), {"chief", 0}, {});
  }));
  const auto worker = [&](const cluster::TaskId& task, WorkerOptions options) {
    options.server.transport = cluster.network().transport("worker-0");
    const WorkerServer server(cluster.spec(), task, cluster.registry(), options);
  };
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"got the task /job:chief/task:0"}, [&] {
    worker({"chief", 0}, {});
  }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"got 0 threads"}, [&] {
    worker({"worker", 0}, {.threads = 0});
  }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"liveness interval of 0.01 s"}, [&] {
    worker({"worker", 0}, {.server = {.liveness = 10ms}});
  }));
}

TEST(CoordinatorTest, AfterShutdownNothingIsScheduled) {
  WorkerThreads cluster(1);
  cluster.registry().add("one", [] { return 1; });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  EXPECT_EQ(coordinator->schedule("one").get<int64_t>(soon()), 1);
  coordinator->shutdown(soon());
  coordinator->shutdown(soon());
  EXPECT_EQ(cluster.wait(0).message(), "");
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition, {"after shutdown"},
                     [&] { coordinator->schedule("one"); }));
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition, {"after shutdown"},
                     [&] { (void)coordinator->create_per_worker("one"); }));
}

}  // namespace
}  // namespace strata::ps
