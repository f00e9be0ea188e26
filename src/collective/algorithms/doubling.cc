// Partners whose distance, or whose share of the buffer, doubles: the tree over replica ids, level
// by level.
#include <algorithm>
#include <functional>
#include <numeric>

#include "collective/algorithms/partition.h"
#include "collective/algorithms/standard_algorithms.h"

namespace strata::collective {
namespace {

/// Both sides' ranks in turns, so that what a rank holds of the sides, and of their sides, is
/// nearly in one piece; with a power of two, reversed bits.
std::vector<int> interleaved(const LeafTree& tree, int lo, int hi) {
  if (tree.ranks(lo, hi).size() == 1) return tree.ranks(lo, hi);
  const int middle = LeafTree::middle(lo, hi);
  const std::vector<int> left = interleaved(tree, lo, middle);
  std::vector<int> right = interleaved(tree, middle, hi);
  std::erase_if(right, [&](int rank) { return std::ranges::count(left, rank) > 0; });
  std::vector<int> result;
  size_t l = 0;
  size_t r = 0;
  while (l < left.size() || r < right.size()) {
    const bool from_left = r == right.size() || (l < left.size() && (2 * l + 1) * right.size() <=
                                                                        (2 * r + 1) * left.size());
    result.push_back(from_left ? left[l++] : right[r++]);
  }
  return result;
}

TreePlan divided_at_every_node(const LeafTree& tree, const std::vector<int>& owners) {
  const std::vector<Piece> whole =
      partition(owners, std::lcm(parts_for(tree), static_cast<int64_t>(owners.size())));
  PartitionedTree divided(whole);
  const std::function<void(int, int, const std::vector<Piece>&)> visit =
      [&](int lo, int hi, const std::vector<Piece>& parent) {
        if (tree.ranks(lo, hi).size() == 1) return;
        const bool is_root = lo == 0 && hi == tree.size();
        divided.add(lo, hi, is_root ? whole : partition_among(parent, tree.ranks(lo, hi)));
        const std::vector<Piece> local = divided.node(lo, hi);
        visit(lo, LeafTree::middle(lo, hi), local);
        visit(LeafTree::middle(lo, hi), hi, local);
      };
  visit(0, tree.size(), whole);
  return divided.plan();
}

}  // namespace

Schedule halving_doubling(const Request& request) {
  const char* const name = "halving_doubling";
  if (request.collective == Collective::kAllReduce) {
    const LeafTree tree(leaves_of(request));
    const TreePlan plan = divided_at_every_node(tree, interleaved(tree, 0, tree.size()));
    return tree_reduce(request, name, tree, plan, /*everywhere=*/true);
  }
  std::vector<int> ranks(static_cast<size_t>(request.placement.num_ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  if (request.collective == Collective::kAllGather) {
    const LeafTree tree = rank_tree(request);
    return tree_gather(request, name, tree, divided_at_every_node(tree, ranks));
  }
  const LeafTree tree(leaves_of(request));
  return tree_reduce(request, name, tree, divided_at_every_node(tree, ranks),
                     /*everywhere=*/false);
}

Schedule recursive_doubling(const Request& request) {
  const LeafTree tree(leaves_of(request));
  const std::vector<int> all = tree.ranks(0, tree.size());
  const auto place = [&](int lo, int hi, int, int wanted_by) {
    const std::vector<int>& ranks = tree.ranks(lo, hi);
    if (std::ranges::count(ranks, wanted_by) > 0) return wanted_by;
    const auto index = std::ranges::find(all, wanted_by) - all.begin();
    return ranks[static_cast<size_t>(index) % ranks.size()];
  };
  ScheduleBuilder builder = builder_for(request, "recursive_doubling", equal_borders(1));
  TreeReduction reduction(builder, tree, place, /*flatten=*/false);
  for (int rank = 0; rank < request.placement.num_ranks(); ++rank) reduction.reduce_to(rank, 0);
  return std::move(builder).finish();
}

Schedule tree(const Request& request) {
  const bool broadcast = request.collective == Collective::kBroadcast;
  const LeafTree leaves = broadcast ? rank_tree(request) : LeafTree(leaves_of(request));
  TreePlan plan;
  plan.borders = equal_borders(1);
  plan.owners = {leaves.leaf(0).rank};
  plan.place = [&leaves](int lo, int, int, int) { return leaves.leaf(lo).rank; };
  return broadcast ? tree_gather(request, "tree", leaves, plan)
                   : tree_reduce(request, "tree", leaves, plan, /*everywhere=*/true);
}

}  // namespace strata::collective
