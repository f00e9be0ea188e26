// One message from each rank to each other rank.
#include "collective/algorithms/standard_algorithms.h"

namespace strata::collective {

Schedule direct(const Request& request) {
  const int ranks = request.placement.num_ranks();
  TreePlan plan;
  const auto place_at_owner = [&] {
    plan.place = [owners = plan.owners](int, int, int chunk, int) {
      return owners[static_cast<size_t>(chunk)];
    };
  };
  if (request.collective == Collective::kAllReduce) {
    const LeafTree tree(leaves_of(request));
    plan.owners = tree.ranks(0, tree.size());
    plan.borders = equal_borders(static_cast<int>(plan.owners.size()));
    place_at_owner();
    return tree_reduce(request, "direct", tree, plan, /*everywhere=*/true);
  }
  plan.borders = equal_borders(ranks);
  for (int rank = 0; rank < ranks; ++rank) plan.owners.push_back(rank);
  place_at_owner();
  if (request.collective == Collective::kAllGather) {
    return tree_gather(request, "direct", rank_tree(request), plan);
  }
  return tree_reduce(request, "direct", LeafTree(leaves_of(request)), plan, /*everywhere=*/false);
}

Schedule exchange(const Request& request) {
  const LeafTree tree(leaves_of(request));
  ScheduleBuilder builder = builder_for(request, "exchange", equal_borders(1));
  TreeReduction reduction(builder, tree, [](int, int, int, int wanted_by) { return wanted_by; });
  for (int rank = 0; rank < request.placement.num_ranks(); ++rank) reduction.reduce_to(rank, 0);
  return std::move(builder).finish();
}

}  // namespace strata::collective
