#include "runtime/replica_group.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "strata/runtime/stop_consensus.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/one_device_strategy.h"
#include "support/replicas.h"
#include "support/this_replica.h"

namespace strata {
namespace {

using namespace std::chrono_literals;

double sum_of(double value) {
  return replica().all_reduce(ReduceOp::kSum, torch::tensor(value, torch::kDouble)).item<double>();
}

/// With 8 replicas on that many permits.
class PermitsTest : public ::testing::TestWithParam<int> {
 protected:
  PermitsTest() { set_logical_devices("cpu", 8); }

  MirroredOptions options() const {
    return {.devices = cpus(8), .replicas = {.permits = GetParam()}};
  }
};

INSTANTIATE_TEST_SUITE_P(RunSlots, PermitsTest, ::testing::Values(1, 2, 3, 8),
                         ::testing::PrintToStringParamName());

TEST_P(PermitsTest, EightReplicasMeetOnAnyNumberOfPermits) {
  MirroredStrategy strategy(options());
  std::atomic<int> computing{0};
  std::atomic<int> most{0};
  const auto compute = [&] {
    const int now = ++computing;
    int before = most.load();
    while (before < now && !most.compare_exchange_weak(before, now)) {
    }
    --computing;
  };
  for (int step = 0; step < 5; ++step) {
    const PerReplica<double> results = strategy.run([&] {
      double value = id();
      for (int i = 0; i < 10; ++i) {
        compute();
        value = sum_of(value) / 8 + id();
        compute();
        value += replica().merge_call(
            [](Strategy& merged, const PerReplica<double>& all) {
              return merged.reduce(ReduceOp::kMax, all);
            },
            value);
        compute();
      }
      return value;
    });
    double value[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int i = 0; i < 10; ++i) {
      double sum = 0;
      for (const double each : value) sum += each;
      for (int r = 0; r < 8; ++r) value[r] = sum / 8 + r;
      const double top = value[7];
      for (double& each : value) each += top;
    }
    for (int r = 0; r < 8; ++r) ASSERT_DOUBLE_EQ(results.get(r), value[r]);
  }
  EXPECT_LE(most, GetParam()) << "more replicas computed at a time than there are permits";
}

/// Thrown by a replica function; not a std::exception on purpose.
struct Mine {
  int id;
};

TEST_P(PermitsTest, ErrorOfAnyReplicaReachesTheCallerAndStopsTheOthers) {
  MirroredStrategy strategy(options());
  for (int thrower = 0; thrower < 8; ++thrower) {
    std::atomic<int> passed{0};
    try {
      strategy.run([&] {
        sum_of(1);
        if (id() == thrower) throw Mine{id()};
        sum_of(1);  // the others wait here for one who never comes
        ++passed;
      });
      FAIL() << "no error from replica " << thrower;
    } catch (const Mine& error) {
      EXPECT_EQ(error.id, thrower);
    }
    EXPECT_EQ(passed, 0);
    EXPECT_EQ(strategy.run([&] { return sum_of(1); }).values(), std::vector<double>(8, 8.0));
  }
}

TEST_P(PermitsTest, ErrorWithoutAnyMeetingReachesTheCaller) {
  MirroredStrategy strategy(options());
  std::atomic<int> finished{0};
  EXPECT_THROW(strategy.run([&] {
    if (id() == 5) throw std::invalid_argument("five");
    ++finished;
  }),
               std::invalid_argument);
  EXPECT_EQ(finished, 7);
}

TEST_P(PermitsTest, DifferentNumbersOfCallsAreOneErrorForAll) {
  MirroredStrategy strategy(options());
  EXPECT_TRUE(
      throws(ErrorCode::kFailedPrecondition,
             {"Some replicas made a different number of replica_context().merge_call() calls",
              "take the same path through the function on every replica"},
             [&] {
               strategy.run([&] {
                 replica().merge_call([](Strategy&) {});
                 if (id() != 3) replica().merge_call([](Strategy&) {});
               });
             }));
  EXPECT_EQ(strategy.run([&] { return sum_of(1); }).get(0), 8);
}

TEST_P(PermitsTest, SwallowedStopIsStillAnError) {
  MirroredStrategy strategy(options());
  EXPECT_THROW(strategy.run([&] {
    if (id() == 0) throw Mine{0};
    try {
      sum_of(1);
    } catch (...) {  // a user's handler that takes everything
    }
  }),
               Mine);
  // It comes again at every later meeting.
  std::atomic<int> seen{0};
  EXPECT_THROW(strategy.run([&] {
    if (id() == 0) throw Mine{0};
    for (int i = 0; i < 3; ++i) {
      try {
        sum_of(1);
      } catch (const std::exception&) {
        ++seen;
      }
    }
  }),
               Mine);
  EXPECT_EQ(seen, 3 * 7);
}

TEST_P(PermitsTest, RandomNumbersDependOnSeedReplicaAndStepAlone) {
  const auto draw = [&](uint64_t seed) {
    MirroredOptions with_seed = options();
    with_seed.seed = seed;
    MirroredStrategy strategy(with_seed);
    std::vector<at::Tensor> drawn;
    for (int step = 0; step < 2; ++step) {
      for (const at::Tensor& each : strategy.run([] { return torch::rand({4}); }))
        drawn.push_back(each);
    }
    return torch::stack(drawn);
  };
  static const at::Tensor with_any_permits = draw(7);
  const at::Tensor local = draw(7);
  EXPECT_TRUE(local.equal(with_any_permits));
  EXPECT_FALSE(local.equal(draw(8)));
  for (int a = 0; a < 16; ++a) {
    for (int b = 0; b < a; ++b) EXPECT_FALSE(local[a].equal(local[b])) << a << " and " << b;
  }
}

class ReplicaGroupTest : public ::testing::Test {
 protected:
  ReplicaGroupTest() { set_logical_devices("cpu", 8); }
};

TEST_F(ReplicaGroupTest, WaitsEndAtTheTimeoutAndNameWhoDidNotCome) {
  for (const int permits : {1, 2}) {
    MirroredStrategy strategy(
        {.devices = cpus(2), .timeout = 200ms, .replicas = {.permits = permits}});
    // The second to start does not come, and keeps the only permit of one: whoever waits must not
    // need it to give up.
    const auto wait_for_the_error = [&] {
      const auto end = std::chrono::steady_clock::now() + 20s;
      while (strategy.group().rendezvous().status().ok() &&
             std::chrono::steady_clock::now() < end) {
        std::this_thread::yield();
      }
    };
    std::atomic<int> first{-1};
    const auto step = [&] {
      int nobody = -1;
      if (first.compare_exchange_strong(nobody, id())) {
        sum_of(1);
      } else {
        wait_for_the_error();
      }
    };
    std::string message;
    try {
      strategy.run(step);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDeadlineExceeded);
      message = error.what();
    }
    EXPECT_TRUE(
        message.starts_with(str_cat("[rendezvous] all_reduce: replica ", first.load(),
                                    " waited 0.2 s for replica(s) ", 1 - first.load(), ";")))
        << message << "; " << permits << " permits";
    EXPECT_NE(message.find("raise the strategy's timeout"), std::string::npos);
    strategy.run([] {});
  }
}

TEST_F(ReplicaGroupTest, RunInsideRunIsRefused) {
  MirroredStrategy strategy({.devices = cpus(2)});
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                     {"[mirrored_strategy] run: called in replica context", "merge_call"},
                     [&] { strategy.run([&] { strategy.run([] {}); }); }));
}

TEST_F(ReplicaGroupTest, CallersTakeTurns) {
  MirroredStrategy strategy({.devices = cpus(2)});
  std::atomic<int> running{0};
  std::atomic<int> overlaps{0};
  on_threads(3, [&](int) {
    for (int i = 0; i < 50; ++i) {
      strategy.run([&] {
        if (++running > 2) ++overlaps;
        sum_of(1);
        --running;
        sum_of(1);
      });
    }
  });
  EXPECT_EQ(overlaps, 0);
}

TEST_F(ReplicaGroupTest, ReplicasSeeTheCallersThreadState) {
  MirroredStrategy strategy({.devices = cpus(3)});
  const torch::NoGradGuard no_grad;
  EXPECT_EQ(strategy.run([] { return torch::GradMode::is_enabled(); }).values(),
            std::vector<bool>(3, false));
  const torch::AutoGradMode with_grad(true);
  EXPECT_EQ(strategy.run([] { return torch::GradMode::is_enabled(); }).values(),
            std::vector<bool>(3, true));
}

TEST_F(ReplicaGroupTest, CountsItsRuns) {
  MirroredStrategy strategy({.devices = cpus(2)});
  EXPECT_EQ(strategy.group().step(), 0u);
  for (int i = 0; i < 3; ++i) strategy.run([] {});
  EXPECT_EQ(strategy.group().step(), 3u);
  strategy.group().set_step(10);
  strategy.run([] {});
  EXPECT_EQ(strategy.group().step(), 11u);
}

TEST_F(ReplicaGroupTest, ObserversAreToldWhileTheyLive) {
  struct Counter : RunObserver {
    void on_run_begin(int) override { ++begins; }
    void on_run_end(int) override { ++ends; }
    std::atomic<int> begins{0};
    std::atomic<int> ends{0};
  };
  MirroredStrategy strategy({.devices = cpus(2)});
  auto counter = std::make_shared<Counter>();
  strategy.group().observe(counter);
  strategy.run([] {});
  EXPECT_EQ(counter->begins, 2);
  EXPECT_EQ(counter->ends, 2);
  EXPECT_THROW(strategy.run([] { throw Mine{0}; }), Mine);
  EXPECT_EQ(counter->begins, 4);
  EXPECT_EQ(counter->ends, 2);
  const std::weak_ptr<Counter> watch = counter;
  counter.reset();
  strategy.run([] {});
  EXPECT_TRUE(watch.expired());
}

TEST_F(ReplicaGroupTest, KnowsItsStrategyAsItsOwner) {
  std::shared_ptr<ReplicaGroup> group;
  {
    MirroredStrategy strategy({.devices = cpus(2)});
    group = strategy.group().shared_from_this();
    EXPECT_NE(group->owner(), nullptr);
    EXPECT_EQ(group->make_stop_consensus(), nullptr) << "there is one process";
    strategy.run([&] { EXPECT_EQ(&replica().strategy(), &strategy); });
  }
  EXPECT_EQ(group->owner(), nullptr);
  EXPECT_EQ(group->make_stop_consensus(), nullptr);
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                     {"[mirrored_strategy] strategy: the strategy", "no longer exists"},
                     [&] { group->run([](ReplicaContext& context) { context.strategy(); }); }));
}

TEST_F(ReplicaGroupTest, ImpossibleOptionsAreRefused) {
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument,
                     {"[mirrored_strategy] permits: got -1", "0 (one per core)"},
                     [] { MirroredStrategy({.devices = cpus(2), .replicas = {.permits = -1}}); }));
  EXPECT_TRUE(
      throws(ErrorCode::kInvalidArgument,
             {"[one_device_strategy] threads_per_replica: got -2", "expected 0 (cores / replicas)"},
             [] { OneDeviceStrategy({.replicas = {.threads_per_replica = -2}}); }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"[strategy] devices: got none", "{\"cpu:0\"}"},
                     [] { ReplicaGroup(ReplicaGroupOptions{}); }));
}

}  // namespace
}  // namespace strata
