// What goes wrong, over memory: functions that throw, workers that are lost, slow, late or others
// than they should be, a coordinator that is gone.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "ps/coordinator/coordinator.h"
#include "ps/worker_threads.h"
#include "strata/core/interrupt.h"
#include "strata/core/log.h"
#include "support/killed_program.h"
#include "support/replicas.h"

namespace strata::ps {
namespace {

using test::from_environment;
using test::Gate;
using test::soon;
using test::WorkerThreads;
using namespace std::chrono_literals;

struct FailureCounter {
  int64_t value = 0;
};

// ---- functions that throw ----

TEST(CoordinatorErrorsTest, AnErrorIsRaisedOnceByJoinThenAllIsAsNew) {
  WorkerThreads cluster(2);
  cluster.registry().add(
      "fail", [](const std::string& why) { throw Error(ErrorCode::kFailedPrecondition, why); });
  cluster.registry().add("one", [] { return 1; });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  for (int round = 0; round < 3; ++round) {
    const RemoteValue<> failed = coordinator->schedule("fail", {"no rows"});
    for (int i = 0; i < 2; ++i) {  // each time
      EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                         {"[ps] fail on /job:worker/task:", "no rows"},
                         [&] { (void)failed.fetch(soon()); }));
    }
    EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition, {"fail on /job:worker/task:", "no rows"},
                       [&] { coordinator->join(soon()); }));
    coordinator->join(soon());
    EXPECT_TRUE(coordinator->done());
    EXPECT_EQ(coordinator->schedule("one").get<int64_t>(soon()), 1);
  }
}

TEST(CoordinatorErrorsTest, ScheduleAndDoneRaiseItToo) {
  WorkerThreads cluster(1);
  cluster.registry().add("fail", [] { throw std::runtime_error("a plain exception"); });
  cluster.registry().add("one", [] { return 1; });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  EXPECT_TRUE(throws(ErrorCode::kUnknown, {"a plain exception"},
                     [&] { (void)coordinator->schedule("fail").fetch(soon()); }));
  EXPECT_TRUE(throws(ErrorCode::kUnknown, {"a plain exception"},
                     [&] { (void)coordinator->schedule("one"); }));
  EXPECT_EQ(coordinator->counts().scheduled, 1U);  // that one was not
  EXPECT_EQ(coordinator->schedule("one").get<int64_t>(soon()), 1);
  EXPECT_TRUE(throws(ErrorCode::kUnknown, {"a plain exception"},
                     [&] { (void)coordinator->schedule("fail").fetch(soon()); }));
  EXPECT_TRUE(
      throws(ErrorCode::kUnknown, {"a plain exception"}, [&] { (void)coordinator->done(); }));
  EXPECT_TRUE(coordinator->done());
  // A call that is refused does not use it up.
  EXPECT_TRUE(throws(ErrorCode::kUnknown, {"a plain exception"},
                     [&] { (void)coordinator->schedule("fail").fetch(soon()); }));
  EXPECT_TRUE(throws(ErrorCode::kNotFound, {}, [&] { coordinator->schedule("nobody"); }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {}, [&] { coordinator->schedule("one", {1}); }));
  EXPECT_TRUE(throws(ErrorCode::kUnknown, {}, [&] { coordinator->join(soon()); }));
}

TEST(CoordinatorErrorsTest, WhatWaitsIsCancelledAndWhatRunsIsAskedToStop) {
  WorkerThreads cluster(2);
  Gate gate;
  std::atomic<int> running = 0;
  cluster.registry().add("wait", [&](const CallContext& context) {
    ++running;
    gate.pass(context.stop());
    --running;
    context.throw_if_stopped();
  });
  cluster.registry().add("fail", [] { throw Error(ErrorCode::kAborted, "broken"); });
  cluster.registry().add("one", [] { return 1; });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  coordinator->wait_for_workers(2, soon());
  const RemoteValue<> waits = coordinator->schedule("wait");
  ASSERT_TRUE(gate.wait_for(1));
  const RemoteValue<> waits_too = coordinator->schedule("wait");
  ASSERT_TRUE(gate.wait_for(2));
  const RemoteValue<> fails = coordinator->schedule("fail");
  std::vector<RemoteValue<>> queued;
  for (int i = 0; i < 20; ++i) queued.push_back(coordinator->schedule("one"));
  EXPECT_FALSE(coordinator->done());
  // One of them ends, and the other worker is still busy when the error comes.
  EXPECT_EQ(running, 2);
  cluster.stop(0);  // its call moves on, behind the other one
  cluster.start(0);
  EXPECT_TRUE(throws(ErrorCode::kAborted, {"broken"}, [&] {
    // The one that came back takes the lost call first, so let it through.
    ASSERT_TRUE(gate.wait_for(3));
    gate.open();
    coordinator->join(soon());
  }));
  EXPECT_EQ(running, 0);
  EXPECT_TRUE(fails.done());
  for (const RemoteValue<>& each : queued) EXPECT_TRUE(each.done());
}

TEST(CoordinatorErrorsTest, CancelledCallsSayThatTheyAreToBeRescheduled) {
  WorkerThreads cluster(1);
  Gate gate;
  cluster.registry().add("fail", [&](const CallContext& context) {
    gate.pass(context.stop());
    throw Error(ErrorCode::kAborted, "broken");
  });
  cluster.registry().add("one", [] { return 1; });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  (void)coordinator->schedule("fail");
  std::vector<RemoteValue<>> queued;
  for (int i = 0; i < 20; ++i) queued.push_back(coordinator->schedule("one"));
  ASSERT_TRUE(gate.wait_for(1));
  gate.open();
  EXPECT_TRUE(throws(ErrorCode::kAborted, {"broken"}, [&] { coordinator->join(soon()); }));
  for (const RemoteValue<>& each : queued) {
    EXPECT_TRUE(throws(ErrorCode::kCancelled, {"Please reschedule the function"},
                       [&] { (void)each.fetch(soon()); }));
  }
  EXPECT_EQ(coordinator->counts().cancelled, 20U);
  EXPECT_EQ(coordinator->schedule("one").get<int64_t>(soon()), 1);
}

// As with a parameter server that is lost: the functions say so, again and again.
TEST(CoordinatorErrorsTest, UnavailableFromAFunctionIsAnErrorEachTime) {
  WorkerThreads cluster(2);
  cluster.registry().add(
      "step", [] { throw Error(ErrorCode::kUnavailable, "[ps] /job:ps/task:0 is lost"); });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  for (int round = 0; round < 3; ++round) {
    coordinator->schedule("step");
    EXPECT_TRUE(throws(ErrorCode::kUnavailable, {"/job:ps/task:0 is lost"},
                       [&] { coordinator->join(soon()); }));
  }
  EXPECT_EQ(coordinator->counts().lost, 0U);
  EXPECT_EQ(coordinator->counts().failed, 3U);
}

// Many rounds: whether the value's error or the call was seen first depended on the threads.
TEST(CoordinatorErrorsTest, AFactoryThatThrowsIsTheErrorOfCallsThatTakeItsObjectAlone) {
  WorkerThreads cluster(2);
  cluster.registry().add_resource("counter", [](int64_t start) {
    STRATA_CHECK(start >= 0, kNotFound, "no file");
    return FailureCounter{start};
  });
  cluster.registry().add("up", [](FailureCounter& counter) { return ++counter.value; });
  cluster.registry().add("one", [] { return 1; });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  coordinator->wait_for_workers(2, soon());
  for (int round = 0; round < 300; ++round) {
    const PerWorkerValues broken = coordinator->create_per_worker("counter", {-1});
    const RemoteValue<> other = coordinator->schedule("one");
    coordinator->join(soon());
    EXPECT_EQ(other.get<int64_t>(soon()), 1);
    const PerWorkerValues broken_too = coordinator->create_per_worker("counter", {-2});
    const RemoteValue<> takes = coordinator->schedule("up", {broken_too});
    EXPECT_TRUE(throws(
        ErrorCode::kNotFound,
        {"[ps] up on /job:worker/task:", ": argument 0: per-worker value \"counter\"", "no file"},
        [&] { (void)takes.fetch(soon()); }));
    EXPECT_TRUE(throws(ErrorCode::kNotFound, {"[ps] up on /job:worker/task:", "no file"},
                       [&] { coordinator->join(soon()); }));
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  const PerWorkerValues good = coordinator->create_per_worker("counter", {1});
  EXPECT_EQ(coordinator->schedule("up", {good}).get<int64_t>(soon()), 2);
}

TEST(CoordinatorErrorsTest, AResultThatCannotTravelIsTheFunctionsError) {
  WorkerThreads cluster(1);
  cluster.registry().add("sparse", [] { return at::ones({2, 2}).to_sparse(); });
  cluster.registry().add("torch", [] { return at::ones({2}) + at::ones({3}); });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  const RemoteValue<> sparse = coordinator->schedule("sparse");
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"[ps] sparse", "expected a dense one"},
                     [&] { coordinator->join(soon()); }));
  const RemoteValue<> torch = coordinator->schedule("torch");
  EXPECT_TRUE(throws(ErrorCode::kUnknown, {"[ps] torch on", "must match the size"},
                     [&] { coordinator->join(soon()); }));
}

TEST(CoordinatorErrorsTest, DeadlinesSayWhatIsStillRunning) {
  WorkerThreads cluster(2);
  Gate gate;
  cluster.registry().add("wait", [&](const CallContext& context) { gate.pass(context.stop()); });
  cluster.start(0);
  const auto coordinator = cluster.coordinator();
  const RemoteValue<> waits = coordinator->schedule("wait");
  ASSERT_TRUE(gate.wait_for(1));
  EXPECT_TRUE(throws(
      ErrorCode::kDeadlineExceeded,
      {"[ps] join", "1 calls had not ended", "1 at /job:worker/task:0", "the oldest wait for"},
      [&] { coordinator->join(wire::Deadline::after(50ms)); }));
  EXPECT_TRUE(throws(ErrorCode::kDeadlineExceeded, {"[ps] RemoteValue: the deadline passed"},
                     [&] { (void)waits.fetch(wire::Deadline::after(20ms)); }));
  EXPECT_TRUE(
      throws(ErrorCode::kDeadlineExceeded,
             {"before 2 workers were there", "/job:worker/task:1", "it has never connected"},
             [&] { coordinator->wait_for_workers(2, wire::Deadline::after(20ms)); }));
  gate.open();
  coordinator->join(soon());
}

TEST(CoordinatorErrorsTest, CtrlCEndsEveryWaitAndTheWorkGoesOn) {
  WorkerThreads cluster(1);
  Gate gate;
  cluster.registry().add("wait",
                         [&](const CallContext& context) { return gate.pass(context.stop()); });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  const RemoteValue<> waits = coordinator->schedule("wait");
  ASSERT_TRUE(gate.wait_for(1));
  for (const auto& wait : std::vector<std::function<void()>>{[&] { coordinator->join(soon()); },
                                                             [&] { (void)waits.fetch(soon()); }}) {
    const InterruptGuard guard;
    std::raise(SIGINT);
    EXPECT_TRUE(throws(ErrorCode::kCancelled, {"interrupted by Ctrl-C"}, wait));
  }
  gate.open();
  EXPECT_TRUE(waits.get<bool>(soon()));
}

// ---- workers that are lost ----

TEST(CoordinatorLossTest, ALostWorkersCallsRunElsewhere) {
  WorkerThreads cluster(2);
  Gate gate;
  std::atomic<int> calls = 0;
  cluster.registry().add("work", [&](const CallContext& context) {
    ++calls;
    if (context.worker().index == 0) {
      gate.pass(context.stop());
      context.throw_if_stopped();
    }
    return context.worker().index;
  });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  coordinator->wait_for_workers(2, soon());
  std::vector<RemoteValue<>> results;
  for (int i = 0; i < 50; ++i) results.push_back(coordinator->schedule("work"));
  ASSERT_TRUE(gate.wait_for(1));
  cluster.cut(0);
  coordinator->join(soon());
  for (const RemoteValue<>& each : results) EXPECT_EQ(each.get<int64_t>(), 1);
  EXPECT_EQ(calls, 51);
  EXPECT_EQ(coordinator->counts().lost, 1U);
  EXPECT_GE(coordinator->counts().retried, 1U);
  EXPECT_EQ(coordinator->num_ready_workers(), 1);
  // It comes back when it can be reached again.
  gate.open();
  cluster.heal(0);
  coordinator->wait_for_workers(2, soon());
}

TEST(CoordinatorLossTest, ASilentWorkerIsLostWithinTheLivenessInterval) {
  WorkerThreads cluster(2);
  cluster.set_liveness(1s);
  cluster.registry().add("where",
                         [](const CallContext& context) { return context.worker().index; });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  coordinator->wait_for_workers(2, soon());
  cluster.silence(0);
  const auto start = std::chrono::steady_clock::now();
  std::vector<RemoteValue<>> results;
  for (int i = 0; i < 10; ++i) results.push_back(coordinator->schedule("where"));
  for (const RemoteValue<>& each : results) EXPECT_EQ(each.get<int64_t>(soon()), 1);
  EXPECT_LT(test::seconds_since(start), 2.0);
  cluster.heal(0);
  coordinator->wait_for_workers(2, soon());
}

// Beats are answered while a function runs for much longer than the interval.
TEST(CoordinatorLossTest, ASlowFunctionIsNotALostWorker) {
  WorkerThreads cluster(1);
  cluster.set_liveness(200ms);
  Gate gate;
  cluster.registry().add("slow",
                         [&](const CallContext& context) { return gate.pass(context.stop()); });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  const RemoteValue<> slow = coordinator->schedule("slow");
  ASSERT_TRUE(gate.wait_for(1));
  EXPECT_TRUE(throws(ErrorCode::kDeadlineExceeded, {},
                     [&] { coordinator->join(wire::Deadline::after(1s)); }));
  gate.open();
  EXPECT_TRUE(slow.get<bool>(soon()));
  EXPECT_EQ(coordinator->counts().lost, 0U);
}

TEST(CoordinatorLossTest, AllWorkersGoneItWaitsUntilOneIsBack) {
  WorkerThreads cluster(2);
  cluster.registry().add("one", [] { return 1; });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  EXPECT_EQ(coordinator->schedule("one").get<int64_t>(soon()), 1);
  cluster.stop(0);
  cluster.stop(1);
  const RemoteValue<> waits = coordinator->schedule("one");
  EXPECT_TRUE(throws(ErrorCode::kDeadlineExceeded, {"nothing runs"},
                     [&] { coordinator->join(wire::Deadline::after(100ms)); }));
  cluster.start(1);
  EXPECT_EQ(waits.get<int64_t>(soon()), 1);
  coordinator->join(soon());
}

TEST(CoordinatorLossTest, AfterTheTimeoutWithoutWorkersTheWorkEndsWithUnavailable) {
  WorkerThreads cluster(1);
  cluster.registry().add("one", [] { return 1; });
  const auto coordinator = cluster.coordinator({.worker_timeout = 100ms});
  const RemoteValue<> waits = coordinator->schedule("one");
  EXPECT_TRUE(throws(ErrorCode::kUnavailable,
                     {"[ps] no worker was connected for 0.1 s", "worker_timeout",
                      "/job:worker/task:0 at worker-0:1"},
                     [&] { coordinator->join(soon()); }));
  EXPECT_TRUE(throws(ErrorCode::kCancelled, {"Please reschedule"}, [&] { (void)waits.fetch(); }));
  cluster.start();
  coordinator->wait_for_workers(1, soon());
  EXPECT_EQ(coordinator->schedule("one").get<int64_t>(soon()), 1);
}

TEST(CoordinatorLossTest, AWorkerThatCameBackHasItsObjectsAnew) {
  WorkerThreads cluster(1);
  cluster.registry().add_resource("counter", [](int64_t start) { return FailureCounter{start}; });
  cluster.registry().add("up", [](FailureCounter& counter) { return ++counter.value; });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  const PerWorkerValues counters = coordinator->create_per_worker("counter", {10});
  EXPECT_EQ(coordinator->schedule("up", {counters}).get<int64_t>(soon()), 11);
  EXPECT_EQ(coordinator->schedule("up", {counters}).get<int64_t>(soon()), 12);
  cluster.stop(0);
  cluster.start(0);
  EXPECT_EQ(coordinator->schedule("up", {counters}).get<int64_t>(soon()), 11);
  // The same when only its connection broke.
  cluster.cut(0);
  cluster.heal(0);
  EXPECT_EQ(coordinator->schedule("up", {counters}).get<int64_t>(soon()), 11);
}

TEST(CoordinatorLossTest, ALateJoinerTakesPart) {
  WorkerThreads cluster(2);
  Gate gate;
  cluster.registry().add("where", [&](const CallContext& context) {
    if (context.worker().index == 0) gate.pass(context.stop());
    return context.worker().index;
  });
  cluster.registry().add_resource("counter", [] { return FailureCounter{}; });
  cluster.registry().add("up", [](FailureCounter& counter) { return ++counter.value; });
  cluster.start(0);
  const auto coordinator = cluster.coordinator();
  const PerWorkerValues counters = coordinator->create_per_worker("counter");
  const RemoteValue<> first = coordinator->schedule("where");
  ASSERT_TRUE(gate.wait_for(1));
  const RemoteValue<> second = coordinator->schedule("where");
  const RemoteValue<> third = coordinator->schedule("up", {counters});
  cluster.start(1);
  EXPECT_EQ(second.get<int64_t>(soon()), 1);
  EXPECT_EQ(third.get<int64_t>(soon()), 1);
  EXPECT_FALSE(first.done());
  gate.open();
  coordinator->join(soon());
}

// What a function of the session before still does is waited for: never two at once.
TEST(CoordinatorLossTest, AWorkerTakesNoCallsBeforeItsOldOnesHaveEnded) {
  WorkerThreads cluster(1);
  Gate gate;
  std::atomic<int> running = 0;
  std::atomic<bool> together = false;
  cluster.registry().add("stubborn", [&](const CallContext& context) {
    if (++running > 1) together = true;
    if (context.stop().stop_requested()) together = true;
    gate.pass();  // does not look whether it is stopped
    --running;
  });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  const RemoteValue<> result = coordinator->schedule("stubborn");
  ASSERT_TRUE(gate.wait_for(1));
  cluster.cut(0);
  cluster.heal(0);
  EXPECT_TRUE(throws(ErrorCode::kDeadlineExceeded, {"it has not answered yet"}, [&] {
    while (coordinator->counts().lost == 0) (void)coordinator->done();
    coordinator->wait_for_workers(1, wire::Deadline::after(300ms));
  }));
  gate.open();
  coordinator->join(soon());
  EXPECT_TRUE(result.done());
  EXPECT_FALSE(together);
}

// ---- others than they should be ----

TEST(CoordinatorRegistryTest, ADifferenceIsNamedOnBothSidesAndRaised) {
  WorkerThreads cluster(2);
  FunctionRegistry others;
  others.add("step", [](double) {});
  others.add("extra", [] {});
  cluster.registry().add("step", [](int64_t) {});
  std::string logged;
  const LogSink before =
      set_log_sink([&](const LogRecord& record) { logged += std::string(record.message) + "\n"; });
  cluster.start(0, others);
  {
    const auto coordinator = cluster.coordinator();
    coordinator->schedule("step", {1});
    EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                       {"/job:worker/task:0 at worker-0:1 does not take part",
                        "only here: extra() -> nothing, step(float64) -> nothing",
                        "only there: step(int64) -> nothing"},
                       [&] { coordinator->join(soon()); }));
    // Another one, which is right, does the work.
    cluster.stop(0);
    cluster.start(1);
    coordinator->wait_for_workers(1, soon());
    try {
      coordinator->join(soon());
    } catch (const Error&) {
      // The wrong one was asked once more before it ended.
    }
    coordinator->schedule("step", {1});
    coordinator->join(soon());
  }
  set_log_sink(before);
  EXPECT_NE(logged.find("/job:chief/task:0"), std::string::npos) << logged;
  EXPECT_NE(logged.find("only there: step(int64)"), std::string::npos) << logged;
}

// ---- a coordinator that is gone ----

TEST(CoordinatorGoneTest, TheNextCoordinatorFindsTheWorkersAsNew) {
  WorkerThreads cluster(2);
  Gate gate;
  std::atomic<int> stopped = 0;
  cluster.registry().add("wait", [&](const CallContext& context) {
    gate.pass(context.stop());
    if (context.stop().stop_requested()) ++stopped;
  });
  cluster.registry().add_resource("counter", [] { return FailureCounter{}; });
  cluster.registry().add("up", [](FailureCounter& counter) { return ++counter.value; });
  cluster.start();
  std::vector<RemoteValue<>> orphans;
  {
    const auto coordinator = cluster.coordinator();
    const PerWorkerValues counters = coordinator->create_per_worker("counter");
    EXPECT_EQ(coordinator->schedule("up", {counters}).get<int64_t>(soon()), 1);
    for (int i = 0; i < 4; ++i) orphans.push_back(coordinator->schedule("wait"));
    ASSERT_TRUE(gate.wait_for(2));
  }  // without shutdown
  for (const RemoteValue<>& each : orphans) {
    EXPECT_TRUE(throws(ErrorCode::kCancelled, {"Please reschedule"}, [&] { (void)each.fetch(); }));
  }
  const auto next = cluster.coordinator();
  next->wait_for_workers(2, soon());
  EXPECT_EQ(stopped, 2);
  const PerWorkerValues counters = next->create_per_worker("counter");
  EXPECT_EQ(next->schedule("up", {counters}).get<int64_t>(soon()), 1);
  next->shutdown(soon());
  EXPECT_EQ(cluster.wait(0).message(), "");
  EXPECT_EQ(cluster.wait(1).message(), "");
}

TEST(CoordinatorGoneTest, AWorkerWithoutCoordinatorEndsAfterItsTimeout) {
  WorkerThreads cluster(2);
  cluster.registry().add("one", [] { return 1; });
  cluster.start(0, {.coordinator_timeout = 200ms});
  EXPECT_TRUE(throws(ErrorCode::kUnavailable,
                     {"/job:worker/task:0 at worker-0:1: no coordinator was connected for 0.2 s",
                      "coordinator_timeout", "no coordinator has ever connected"},
                     [&] { cluster.wait(0).throw_if_error(); }));
  cluster.start(1, {.coordinator_timeout = 500ms});
  {
    const auto coordinator = cluster.coordinator();
    EXPECT_EQ(coordinator->schedule("one").get<int64_t>(soon()), 1);
  }
  EXPECT_TRUE(throws(ErrorCode::kUnavailable, {"the last one was lost"},
                     [&] { cluster.wait(1).throw_if_error(); }));
}

TEST(CoordinatorGoneTest, ASilentCoordinatorIsLostForTheWorker) {
  WorkerThreads cluster(1);
  cluster.set_liveness(300ms);
  Gate gate;
  cluster.registry().add("wait", [&](const CallContext& context) { gate.pass(context.stop()); });
  cluster.start(0, {.coordinator_timeout = 200ms});
  const auto coordinator = cluster.coordinator();
  coordinator->schedule("wait");
  ASSERT_TRUE(gate.wait_for(1));
  cluster.silence(0);
  EXPECT_TRUE(throws(ErrorCode::kUnavailable, {"was silent for more than"},
                     [&] { cluster.wait(0).throw_if_error(); }));
}

TEST(CoordinatorGoneTest, ASecondCoordinatorIsRefusedWhileTheFirstIsThere) {
  WorkerThreads cluster(1);
  cluster.registry().add("one", [] { return 1; });
  cluster.start();
  auto first = cluster.coordinator();
  EXPECT_EQ(first->schedule("one").get<int64_t>(soon()), 1);
  const auto second = cluster.coordinator({}, "chief-1");
  EXPECT_TRUE(throws(ErrorCode::kDeadlineExceeded,
                     {"it serves another coordinator, /job:chief/task:0"},
                     [&] { second->wait_for_workers(1, wire::Deadline::after(500ms)); }));
  EXPECT_EQ(first->schedule("one").get<int64_t>(soon()), 1);
  first.reset();
  EXPECT_EQ(second->schedule("one").get<int64_t>(soon()), 1);
}

TEST(CoordinatorGoneTest, JoinCanBeStopped) {
  WorkerThreads cluster(1);
  Gate gate;
  cluster.registry().add("wait", [&](const CallContext& context) { gate.pass(context.stop()); });
  cluster.start();
  const auto coordinator = cluster.coordinator();
  coordinator->schedule("wait");
  ASSERT_TRUE(gate.wait_for(1));
  cluster.stop(0);  // returns: the function has seen it
  EXPECT_TRUE(throws(ErrorCode::kDeadlineExceeded, {},
                     [&] { coordinator->join(wire::Deadline::after(100ms)); }));
  EXPECT_EQ(coordinator->counts().lost, 1U);
}

// ---- whatever happens, whenever ----

struct Tally {
  std::map<int64_t, int> applied;  // how often each call ran
};

// Calls that add themselves to a tally, while workers are cut off, silenced, ended and started
// again at random moments. Each call that ends well has run at least once, and brings its own
// result; one that is cancelled says so; nothing hangs.
void one_history(uint64_t seed) {
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const int workers = 1 + static_cast<int>(random() % 3);
  WorkerThreads cluster(workers, {.seed = seed,
                                  .link = {.latency = std::chrono::microseconds(random() % 300),
                                           .fragment = random() % 4 == 0},
                                  .shuffle = random() % 2 == 0});
  cluster.set_liveness(1s);
  const auto mutex = std::make_shared<std::mutex>();
  const auto tally = std::make_shared<Tally>();
  const bool large = random() % 2 == 0;
  cluster.registry().add("apply", [mutex, tally](int64_t number, const at::Tensor& x, bool fail) {
    const std::lock_guard lock(*mutex);
    ++tally->applied[number];
    STRATA_CHECK(!fail, kAborted, "call ", number);
    return std::pair(number, x * 2);
  });
  cluster.registry().add_resource("counter", [] { return FailureCounter{}; });
  cluster.registry().add("up", [](FailureCounter& counter) { return ++counter.value; });
  cluster.start({.threads = 1 + static_cast<int>(random() % 2)});
  const auto coordinator = cluster.coordinator(
      {.queue_size = 1 + random() % 64, .max_in_flight = 1 + static_cast<int>(random() % 16)});
  const PerWorkerValues counters = coordinator->create_per_worker("counter");
  struct Scheduled {
    int64_t number;
    RemoteValue<> result;
    bool fails;
  };
  std::vector<Scheduled> all;
  int raised = 0;
  std::vector<bool> away(static_cast<size_t>(workers), false);
  const auto guarded = [&](auto call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kAborted) << error.what();
      ++raised;
    }
  };
  int fails = 0;
  for (int64_t number = 0; number < 150; ++number) {
    const uint64_t dice = random() % 40;
    const int victim = static_cast<int>(random() % static_cast<uint64_t>(workers));
    if (dice == 0) cluster.cut(victim);
    if (dice == 1) cluster.silence(victim);
    if (dice == 2) {
      cluster.network().cut_after(random() % 2 == 0 ? "chief-0" : WorkerThreads::host(victim),
                                  random() % 2 == 0 ? WorkerThreads::host(victim) : "chief-0",
                                  random() % 100'000);
    }
    if (dice <= 2) cluster.heal(victim);  // so that it comes back
    if (dice == 3) {
      cluster.stop(victim);
      cluster.start(victim);
    }
    const bool fail = dice == 4 && fails < 3;
    if (fail) ++fails;
    guarded([&] {
      const at::Tensor x = at::arange(large ? 20'000 : 10) + number;
      all.push_back({number, coordinator->schedule("apply", {number, x, fail}, soon()), fail});
      coordinator->schedule("up", {counters}, soon());
    });
    if (dice == 5) guarded([&] { coordinator->join(soon()); });
    if (dice == 6) guarded([&] { (void)coordinator->done(); });
  }
  guarded([&] { coordinator->join(soon()); });
  guarded([&] { coordinator->join(soon()); });
  coordinator->join(soon());
  EXPECT_LE(raised, fails);
  const std::lock_guard lock(*mutex);
  for (const Scheduled& each : all) {
    ASSERT_TRUE(each.result.done()) << each.number;
    try {
      const Value value = each.result.fetch();
      EXPECT_FALSE(each.fails);
      EXPECT_EQ(value.list().at(0).as_int(), each.number);
      EXPECT_EQ(value.list().at(1).tensor()[3].item<int64_t>(), 2 * (3 + each.number));
      EXPECT_GE(tally->applied[each.number], 1);
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::kCancelled ||
                  (error.code() == ErrorCode::kAborted && each.fails))
          << error.what();
    }
  }
  const CoordinatorCounts counts = coordinator->counts();
  EXPECT_EQ(counts.scheduled, counts.finished + counts.failed + counts.cancelled);
  EXPECT_LE(counts.failed, static_cast<uint64_t>(fails));
}

// STRATA_SOAK_COORDINATOR=500 takes as many seeds, STRATA_SOAK_SEED=n others, STRATA_TEST_ONLY=i
// only the i-th of them.
TEST(CoordinatorRandomTest, WhateverHappensWheneverEachCallEndsOnce) {
  const auto first = static_cast<uint64_t>(from_environment("STRATA_SOAK_SEED", 1)) * 1'000'000;
  const int runs = from_environment("STRATA_SOAK_COORDINATOR", 20);
  const int only = from_environment("STRATA_TEST_ONLY", -1);
  for (int run = 0; run < runs; ++run) {
    if (only < 0 || run == only) one_history(first + static_cast<uint64_t>(run));
  }
}

}  // namespace
}  // namespace strata::ps
