#include "graph/memory_plan.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace strata::graph {
namespace {

bool at_the_same_time(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

}  // namespace

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes, int64_t alignment) {
  const auto aligned = [alignment](int64_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  };
  MemoryPlan plan{.offsets = std::vector<int64_t>(lifetimes.size()), .bytes = 0};
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](size_t i) { return lifetimes[i].bytes; });
  struct Taken {
    int64_t begin, end;
  };
  std::vector<size_t> placed;
  for (const size_t i : order) {
    std::vector<Taken> taken;  // while it is needed
    for (const size_t other : placed) {
      if (!at_the_same_time(lifetimes[i], lifetimes[other])) continue;
      const int64_t begin = plan.offsets[other];
      taken.push_back({begin, begin + aligned(lifetimes[other].bytes)});
    }
    std::ranges::sort(taken, {}, &Taken::begin);
    const int64_t bytes = aligned(lifetimes[i].bytes);
    int64_t at = 0;
    for (const Taken& each : taken) {
      if (at + bytes <= each.begin) break;
      at = std::max(at, each.end);
    }
    plan.offsets[i] = at;
    plan.bytes = std::max(plan.bytes, at + bytes);
    placed.push_back(i);
  }
  return plan;
}

}  // namespace strata::graph
