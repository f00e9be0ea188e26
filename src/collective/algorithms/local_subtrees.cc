#include "collective/algorithms/local_subtrees.h"

#include <algorithm>
#include <functional>

#include "collective/algorithms/tree_reduction.h"

namespace strata::collective {

LocalSubtrees::LocalSubtrees(const Placement& placement)
    : of_rank_(static_cast<size_t>(placement.num_ranks())) {
  const std::vector<int>& ranks = placement.rank_of_replica;
  std::vector<int> next(of_rank_.size(), 0);  // place of the rank's next replica
  std::vector<int> places(ranks.size(), Schedule::kAbsent);
  const std::function<void(int, int)> visit = [&](int lo, int hi) {
    const int rank = ranks[static_cast<size_t>(lo)];
    const bool whole = std::all_of(ranks.begin() + lo, ranks.begin() + hi,
                                   [&](int other) { return other == rank; });
    if (!whole) {
      const int middle = LeafTree::middle(lo, hi);
      visit(lo, middle);
      visit(middle, hi);
      return;
    }
    std::vector<Node>& local = of_rank_[static_cast<size_t>(rank)];
    int& first = next[static_cast<size_t>(rank)];
    local.push_back({.rank = rank,
                     .index = static_cast<int>(local.size()),
                     .first = first,
                     .replicas = hi - lo});
    first += hi - lo;
    places[static_cast<size_t>(lo)] = static_cast<int>(nodes_.size());
    nodes_.push_back(local.back());
    most_ = std::max(most_, static_cast<int>(local.size()));
  };
  visit(0, placement.num_replicas());
  sources_ = compressed(std::move(places));
}

}  // namespace strata::collective
