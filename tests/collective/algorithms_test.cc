#include "strata/collective/algorithms.h"
#include "collective/placements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "support/expect_error.h"

namespace strata::collective {
namespace {

using enum Collective;

Request request_of(Collective collective, Placement placement, Order order = Order::kFixed,
                   int root = 0) {
  return {
      .collective = collective, .placement = std::move(placement), .order = order, .root = root};
}

std::string to_string(const Placement& placement) {
  std::string text = "replicas on ranks";
  for (const int rank : placement.rank_of_replica) text += str_cat(" ", rank);
  text += ", hosts";
  for (const int host : placement.host_of_rank) text += str_cat(" ", host);
  return text;
}

/// Placements of `ranks` ranks: one replica each, several, uneven, scattered, on hosts, with idle
/// ranks.
std::vector<Placement> placements(int ranks) {
  const auto n = static_cast<size_t>(ranks);
  std::vector<Placement> result = {one_each(ranks), one_each(ranks, 2), one_each(ranks, 4)};
  result.push_back(Placement::blocks(std::vector<int>(n, 2)));
  result.push_back(Placement::blocks(std::vector<int>(n, 3), 3));
  std::vector<int> uneven(n, 3);
  uneven.back() = 2;
  result.push_back(Placement::blocks(uneven));  // (3, 3, 2)
  for (size_t i = 0; i < n; ++i) uneven[i] = 1 + static_cast<int>(i * 7 % 5);
  result.push_back(Placement::blocks(uneven, 2));
  for (size_t i = 0; i < n; ++i) uneven[i] = static_cast<int>(i % 3);  // none on some ranks
  uneven.back() = 1;
  result.push_back(Placement::blocks(uneven, 3));
  Placement scattered = one_each(ranks);  // a lost rank's replicas taken over, interleaved hosts
  for (int i = 0; i < ranks; ++i) {
    scattered.rank_of_replica.push_back((i * 5 + 2) % ranks);
    scattered.host_of_rank[static_cast<size_t>(i)] = i % 2;
  }
  result.push_back(scattered);
  return result;
}

// The proof of all proofs here: every schedule offered, every number of ranks, many placements.
TEST(AlgorithmsTest, EveryScheduleSumsEachValueOnceInTheFixedTreeForUpTo33Ranks) {
  const Algorithms algorithms = Algorithms::standard();
  int schedules = 0;
  for (int ranks = 1; ranks <= 33; ++ranks) {
    for (const Placement& placement : placements(ranks)) {
      for (const Collective collective : {kAllReduce, kReduceScatter}) {
        for (const Order order : {Order::kFixed, Order::kAny}) {
          const Request request = request_of(collective, placement, order);
          for (const Algorithm* algorithm : algorithms.offered(request)) {
            const Schedule schedule = algorithm->make(request);
            ASSERT_EQ(schedule.name, algorithm->name);
            ASSERT_EQ(find_fault(schedule, request), "") << to_string(placement) << "\n"
                                                         << to_string(schedule);
            ++schedules;
          }
        }
      }
    }
  }
  EXPECT_GT(schedules, 33 * 9 * 4 * 2);
}

TEST(AlgorithmsTest, EveryScheduleGathersBroadcastsAndMeetsForUpTo33Ranks) {
  const Algorithms algorithms = Algorithms::standard();
  for (int ranks = 1; ranks <= 33; ++ranks) {
    for (const int ranks_per_host : {1, 2, 5}) {
      for (const Collective collective : {kAllGather, kBroadcast, kBarrier}) {
        for (const int root : {0, ranks / 2, ranks - 1}) {
          const Request request =
              request_of(collective, one_each(ranks, ranks_per_host), Order::kFixed, root);
          ASSERT_GE(algorithms.offered(request).size(), 1u);
          for (const Algorithm* algorithm : algorithms.offered(request)) {
            const Schedule schedule = algorithm->make(request);
            ASSERT_EQ(find_fault(schedule, request), "") << ranks << " ranks, root " << root << "\n"
                                                         << to_string(schedule);
          }
        }
      }
    }
  }
}

TEST(AlgorithmsTest, SegmentsAndTheOrderOfMessagesChangeNothing) {
  const Algorithms algorithms = Algorithms::standard();
  for (const int ranks : {2, 3, 5, 8, 12, 17}) {
    for (const Placement& placement : placements(ranks)) {
      for (const Collective collective :
           {kAllReduce, kReduceScatter, kAllGather, kBroadcast, kBarrier}) {
        for (const Order order : {Order::kFixed, Order::kAny}) {
          const Request request = request_of(collective, placement, order);
          for (const Algorithm* algorithm : algorithms.offered(request)) {
            const Schedule schedule = algorithm->make(request);
            ASSERT_EQ(find_fault(schedule, request, /*seed=*/1), "") << to_string(schedule);
            ASSERT_EQ(find_fault(schedule, request, /*seed=*/2), "");
            // Parts of a scattered or gathered buffer are the ranks': they are not cut again.
            if (!algorithm->pipelines || collective == kReduceScatter || collective == kAllGather) {
              continue;
            }
            const Schedule cut = segmented(schedule, 3);
            ASSERT_EQ(find_fault(cut, request), "") << to_string(cut);
            ASSERT_EQ(find_fault(cut, request, /*seed=*/3), "");
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::collective
