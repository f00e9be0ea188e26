#include "collective/algorithms/scratch_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "strata/collective/algorithms.h"

namespace strata::collective {
namespace {

/// Calls `look` with every schedule of the standard all-reduces, whole and in segments.
void for_all_schedules(const std::function<void(const Schedule&)>& look) {
  const Algorithms algorithms = Algorithms::standard();
  for (int n = 2; n <= 9; ++n) {
    const Request request{
        .collective = Collective::kAllReduce,
        .placement = Placement::blocks(std::vector<int>(static_cast<size_t>(n), 1)),
        .order = Order::kAny};
    for (const Algorithm* algorithm : algorithms.offered(request)) {
      const Schedule schedule = algorithm->make(request);
      look(schedule);
      if (algorithm->pipelines) look(segmented(schedule, 3));
    }
  }
}

// The executor passes over a receive that a reduction takes in: it must be that one's own, and
// nothing but other such receives may come between.
TEST(ScratchLayoutTest, WhatArrivesDuringAReductionIsReadByItAlone) {
  int found = 0;
  for_all_schedules([&](const Schedule& schedule) {
    for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
      const ScratchLayout layout(schedule, rank);
      const std::vector<Step>& steps = schedule.ranks[static_cast<size_t>(rank)];
      std::vector<int> takers(steps.size(), 0);
      for (size_t i = 0; i < steps.size(); ++i) {
        for (const ScratchLayout::Arriving& message : layout.arriving()[i]) {
          ASSERT_EQ(steps[i].kind, Step::Kind::kReduce);
          ASSERT_LT(message.receive, static_cast<int>(i));
          const Step& receive = steps[static_cast<size_t>(message.receive)];
          EXPECT_EQ(receive.chunk, steps[i].chunk);
          EXPECT_EQ(receive.chunks, steps[i].chunks);
          EXPECT_EQ(schedule.sources[static_cast<size_t>(steps[i].first + message.source)],
                    receive.target);
          for (size_t between = static_cast<size_t>(message.receive); between < i; ++between) {
            EXPECT_EQ(steps[between].kind, Step::Kind::kReceive) << schedule.name;
          }
          ++takers[static_cast<size_t>(message.receive)];
          ++found;
        }
      }
      for (size_t i = 0; i < steps.size(); ++i) {
        EXPECT_EQ(takers[i], layout.taken_while_arriving()[i] ? 1 : 0);
      }
    }
  });
  EXPECT_GT(found, 100);
}

TEST(ScratchLayoutTest, TheDirectSumTakesAllItsMessagesWhileTheyArrive) {
  const Request request{.collective = Collective::kAllReduce,
                        .placement = Placement::blocks({1, 1, 1, 1})};
  const Algorithms algorithms = Algorithms::standard();
  const Schedule schedule = algorithms.find(Collective::kAllReduce, "direct")->make(request);
  const ScratchLayout layout(schedule, 2);
  size_t most = 0;
  for (const auto& messages : layout.arriving()) most = std::max(most, messages.size());
  EXPECT_EQ(most, 3u);
}

}  // namespace
}  // namespace strata::collective
