// Workers that step together agree on one step to save after, whoever is told to stop, and when.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "runtime/replica_group.h"
#include "strata/cluster/server.h"
#include "strata/runtime/stop_consensus.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"
#include "strategies/worker_stop_consensus.h"
#include "support/replicas.h"
#include "support/thread_cluster.h"

namespace strata {
namespace {

/// Each worker with its agreement; `work` ends with all of them.
void with_agreements(int workers,
                     const std::function<void(Strategy& strategy, int worker,
                                              std::shared_ptr<StopConsensus>& agreement)>& work) {
  set_logical_devices("cpu", 1);
  test::ThreadCluster cluster(test::ThreadCluster::spec_of({{"worker", workers}}));
  test::expect_all_ok(cluster.run([&](test::ThreadCluster::Task& task) {
    MultiWorkerMirroredStrategy strategy(
        task.taking_part(MultiWorkerMirroredOptions{.devices = cpus(1)}));
    std::shared_ptr<StopConsensus> agreement = strategy.group().make_stop_consensus();
    work(strategy, task.id.index, agreement);
  }));
}

/// A step of training: nobody ends it before all have begun it.
void step_together(Strategy& strategy) {
  (void)strategy.reduce(ReduceOp::kSum, PerReplica<double>({1.0}));
}

TEST(StepAgreementTest, AllStopAfterTheSameStepWhoeverIsToldWhenever) {
  std::mt19937 random(1);
  for (int round = 0; round < 30; ++round) {
    const int workers = 2 + static_cast<int>(random() % 3);
    std::vector<int64_t> told_at;  // by worker; behind the end: never
    for (int w = 0; w < workers; ++w) told_at.push_back(static_cast<int64_t>(random() % 12) + 3);
    const int64_t first = *std::min_element(told_at.begin(), told_at.end());
    std::mutex mutex;
    std::vector<int64_t> stopped;
    with_agreements(workers, [&](Strategy& strategy, int worker,
                                 std::shared_ptr<StopConsensus>& agreement) {
      for (int64_t step = 3;; ++step) {  // a run that goes on from step 2
        step_together(strategy);
        const auto agreed = agreement->agree(step, step >= told_at[static_cast<size_t>(worker)]);
        if (!agreed || step < *agreed) continue;
        EXPECT_EQ(*agreed, step);
        const std::lock_guard lock(mutex);
        stopped.push_back(step);
        return;
      }
    });
    ASSERT_EQ(stopped.size(), static_cast<size_t>(workers));
    for (const int64_t step : stopped) {
      EXPECT_EQ(step, stopped[0]);
      EXPECT_TRUE(step == first || step == first + 1) << step << " for " << first;
    }
  }
}

TEST(StepAgreementTest, AfterOneAgreementComesTheNext) {
  std::mutex mutex;
  std::map<int64_t, int> stops;  // how many stopped there
  with_agreements(
      3, [&](Strategy& strategy, int worker, std::shared_ptr<StopConsensus>& agreement) {
        int rounds = 0;
        for (int64_t step = 1; rounds < 2; ++step) {
          step_together(strategy);
          const bool told = rounds == 0 ? worker == 1 && step >= 4 : worker == 2 && step >= 9;
          const auto agreed = agreement->agree(step, told);
          if (!agreed || step < *agreed) continue;
          ++rounds;
          const std::lock_guard lock(mutex);
          ++stops[step];
        }
      });
  ASSERT_EQ(stops.size(), 2);
  for (const auto& [step, workers] : stops) EXPECT_EQ(workers, 3) << step;
}

TEST(StepAgreementTest, WhoHasEndedHoldsUpNobody) {
  std::latch ended(1);
  with_agreements(2,
                  [&](Strategy& strategy, int worker, std::shared_ptr<StopConsensus>& agreement) {
                    step_together(strategy);
                    EXPECT_FALSE(agreement->agree(1, false));
                    if (worker == 0) {
                      agreement.reset();
                      ended.count_down();
                      return;
                    }
                    ended.wait();
                    EXPECT_FALSE(agreement->agree(2, true));
                    EXPECT_FALSE(agreement->agree(3, true));
                  });
}

TEST(StepAgreementTest, WhoEndsBehindAnAgreementHoldsUpNobody) {
  std::latch agreed(1);
  std::latch ended(1);
  with_agreements(2,
                  [&](Strategy& strategy, int worker, std::shared_ptr<StopConsensus>& agreement) {
                    step_together(strategy);
                    EXPECT_FALSE(agreement->agree(1, false));
                    step_together(strategy);
                    if (worker == 0) {  // has heard of the step by itself, and never asks for it
                      agreed.wait();
                      agreement.reset();
                      ended.count_down();
                      return;
                    }
                    EXPECT_EQ(agreement->agree(2, true), 2);
                    agreed.count_down();
                    ended.wait();
                    EXPECT_FALSE(agreement->agree(3, true));
                    EXPECT_FALSE(agreement->agree(4, true));
                  });
}

using Work = std::function<void(cluster::Server& server, int worker, StopConsensus& agreement)>;

/// Two workers with their agreements, while a third waits to take part, which it does in the end.
void while_one_waits(const Work& work) {
  const std::vector<cluster::TaskId> both = {{"worker", 0}, {"worker", 1}};
  test::ThreadCluster cluster(test::ThreadCluster::spec_of({{"worker", 3}}));
  test::expect_all_ok(cluster.run([&](test::ThreadCluster::Task& task) {
    std::shared_ptr<cluster::Server> server = task.start();
    server->barrier("start", test::soon());
    if (task.id.index == 2) {
      server->shutdown(test::soon());
      server.reset();
      server = task.start();
    } else {
      EXPECT_TRUE(server->transport().wait_until([&] { return !server->newcomers().empty(); },
                                                 test::soon()));
      {
        detail::WorkerStopConsensus agreement(server, task.id.index, 2, /*number=*/1,
                                              /*take_in=*/true, [] {});
        work(*server, task.id.index, agreement);
      }
      server->barrier("saved", test::soon(), both);
      server->rejoin(test::soon(), true);
    }
    server->barrier("all", test::soon());
    server->shutdown(test::soon());
  }));
}

/// @return the step that all stop after.
int64_t step_until_agreed(cluster::Server& server, StopConsensus& agreement) {
  for (int64_t step = 1;; ++step) {
    server.barrier("step", test::soon(), {{"worker", 0}, {"worker", 1}});
    const auto agreed = agreement.agree(step, false);
    if (agreed && step >= *agreed) return step;
  }
}

TEST(StepAgreementTest, AllTakeInWhoWaitsAfterTheSameStep) {
  std::mutex mutex;
  std::vector<int64_t> steps;
  while_one_waits([&](cluster::Server& server, int, StopConsensus& agreement) {
    EXPECT_FALSE(agreement.membership_changes());
    const int64_t step = step_until_agreed(server, agreement);
    EXPECT_TRUE(agreement.membership_changes());
    const std::lock_guard lock(mutex);
    steps.push_back(step);
  });
  ASSERT_EQ(steps.size(), 2);
  EXPECT_EQ(steps[0], steps[1]);
  EXPECT_LE(steps[0], 2);
}

TEST(StepAgreementTest, WhoIsToldToStopIsHeardFirst) {
  while_one_waits([&](cluster::Server& server, int worker, StopConsensus& agreement) {
    // Until the other has said that it stops, and when.
    if (worker == 0) (void)server.get("strata/preemption/1/1/1/step/1", test::soon());
    EXPECT_EQ(agreement.agree(1, worker == 1), 1);
    EXPECT_FALSE(agreement.membership_changes());
  });
}

}  // namespace
}  // namespace strata
