#include "strata/collective/schedule.h"

#include <algorithm>

namespace strata::collective {

Schedule direct_all_reduce(int num_ranks) {
  Schedule schedule{.name = "direct_all_reduce", .num_chunks = num_ranks, .ranks = {}};
  for (int rank = 0; rank < num_ranks; ++rank) {
    std::vector<Step> steps;
    steps.push_back({.kind = Step::Kind::kMeet});
    steps.push_back({.kind = Step::Kind::kReduce,
                     .chunk = rank,
                     .first = 0,
                     .last = num_ranks,
                     .target = rank});
    for (int target = 0; target < num_ranks; ++target) {
      if (target == rank) continue;
      steps.push_back({.kind = Step::Kind::kCopy, .chunk = rank, .first = rank, .target = target});
    }
    steps.push_back({.kind = Step::Kind::kMeet});
    schedule.ranks.push_back(std::move(steps));
  }
  return schedule;
}

Range chunk_range(int64_t size, int count, int index) {
  constexpr int64_t kAlignment = 64;
  const int64_t even = (size + count - 1) / count;
  const int64_t part = (even + kAlignment - 1) / kAlignment * kAlignment;
  return {.begin = std::min(size, part * index), .end = std::min(size, part * (index + 1))};
}

}  // namespace strata::collective
