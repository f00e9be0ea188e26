// A collective over a cluster: when a rank is lost, all others get one error that says whom, where,
// and in which call.
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "collective/wire/wire_communicator.h"
#include "support/thread_cluster.h"

namespace strata::collective {
namespace {

using cluster::Server;
using cluster::TaskId;
using namespace std::chrono_literals;

constexpr int kRanks = 4;

std::unique_ptr<WireCommunicator> communicator_of(Server& server) {
  Placement placement;
  std::vector<std::shared_ptr<wire::Connection>> peers;
  for (int rank = 0; rank < kRanks; ++rank) {
    placement.rank_of_replica.push_back(rank);
    placement.host_of_rank.push_back(rank);
    const bool self = rank == server.task().index;
    peers.push_back(self ? nullptr : server.connect({"worker", rank}, "data", test::soon()));
  }
  return std::make_unique<WireCommunicator>(
      server.task().index, std::move(peers),
      std::shared_ptr<wire::Transport>(std::shared_ptr<void>(), &server.transport()),
      std::make_shared<Planner>(placement, LinkModel::typical(), CommunicationOptions{}),
      WireCommunicatorOptions{
          .root_cause = [&](const Status& seen) { return server.root_cause(seen); },
          .doing = [&](std::string_view call) { server.set_operation(call); }});
}

TEST(LostRankTest, IsNamedByAllWithTheCallAndItsTensor) {
  for (const int lost : {0, 1, 3}) {
    test::ThreadCluster cluster(test::ThreadCluster::spec_of({{"worker", kRanks}}),
                                {.liveness = 1s});
    const auto outcomes = cluster.run([&](test::ThreadCluster::Task& task) {
      auto server = task.start();
      const auto communicator = communicator_of(*server);
      at::Tensor gradients = at::ones({200'000});
      const CallOptions call = {.id = 3, .name = "gradients of dense/kernel"};
      for (int step = 0; step < 5; ++step) {
        communicator->all_reduce_(gradients, ReduceOp::kMean, call);
      }
      // What it does last is known when a heartbeat has told it.
      server->barrier("told", test::soon());
      if (task.id.index == lost) {
        server.reset();  // as a process that dies
        return;
      }
      const auto start = std::chrono::steady_clock::now();
      try {
        communicator->all_reduce_(gradients, ReduceOp::kMean, call);
      } catch (...) {
        EXPECT_LT(test::seconds_since(start), 2.0);
        throw;
      }
    });
    std::string first;
    for (const auto& [task, status] : outcomes) {
      if (task.index == lost) continue;
      EXPECT_EQ(status.code(), ErrorCode::kUnavailable);
      if (first.empty()) first = status.message();
      EXPECT_EQ(status.message(), first);
    }
    for (const std::string& part :
         {str_cat("/job:worker/task:", lost, " at worker-", lost, ":1"),
          std::string("is lost: it closed its connection without leaving"),
          std::string("all_reduce gradients of dense/kernel")}) {
      EXPECT_NE(first.find(part), std::string::npos) << part << "\n" << first;
    }
  }
}

TEST(LostRankTest, RanksThatDisagreeAreNamedByAll) {
  test::ThreadCluster cluster(test::ThreadCluster::spec_of({{"worker", kRanks}}));
  const auto outcomes = cluster.run([&](test::ThreadCluster::Task& task) {
    const auto server = task.start();
    const auto communicator = communicator_of(*server);
    at::Tensor gradients = at::ones({task.id.index == 2 ? 100 : 200});
    communicator->all_reduce_(gradients, ReduceOp::kSum, {.name = "gradients of dense/kernel"});
  });
  const std::string first = outcomes.begin()->second.message();
  for (const auto& [task, status] : outcomes) {
    EXPECT_EQ(status.code(), ErrorCode::kFailedPrecondition) << status.message();
    EXPECT_EQ(status.message(), first);
  }
  EXPECT_NE(first.find("/job:worker/task:2"), std::string::npos) << first;
  EXPECT_NE(first.find("gradients of dense/kernel"), std::string::npos) << first;
}

}  // namespace
}  // namespace strata::collective
