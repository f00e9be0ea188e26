// Broadcasts; their tree is in doubling.cc.
#include <algorithm>
#include <numeric>

#include "collective/algorithms/standard_algorithms.h"

namespace strata::collective {

std::vector<int> ranks_by_host(const Request& request) {
  const std::vector<int>& hosts = request.placement.host_of_rank;
  std::vector<int> ranks(hosts.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  const bool rooted = request.collective == Collective::kBroadcast;
  const auto key = [&](int rank) {
    const int host = hosts[static_cast<size_t>(rank)];
    const bool at_root = rooted && host == hosts[static_cast<size_t>(request.root)];
    return std::make_tuple(!at_root, host, !(rooted && rank == request.root), rank);
  };
  std::sort(ranks.begin(), ranks.end(), [&](int a, int b) { return key(a) < key(b); });
  return ranks;
}

LeafTree rank_tree(const Request& request) {
  std::vector<Leaf> leaves;
  for (const int rank : ranks_by_host(request)) leaves.push_back({rank, {1}});
  return LeafTree(std::move(leaves));
}

Schedule send_to_all(const Request& request) {
  ScheduleBuilder builder = builder_for(request, "direct", equal_borders(1));
  for (int rank = 0; rank < request.placement.num_ranks(); ++rank) {
    if (rank != request.root) builder.message(0, request.root, 0, rank, 0, 0);
  }
  return std::move(builder).finish();
}

Schedule chain(const Request& request) {
  const std::vector<int> ranks = ranks_by_host(request);
  ScheduleBuilder builder = builder_for(request, "chain", equal_borders(1));
  for (size_t i = 0; i + 1 < ranks.size(); ++i) {
    builder.message(static_cast<int>(i), ranks[i], 0, ranks[i + 1], 0, 0);
  }
  return std::move(builder).finish();
}

Schedule scatter(const Request& request) {
  const int ranks = request.placement.num_ranks();
  ScheduleBuilder builder = builder_for(request, "scatter", equal_borders(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const int chunk = rank;
    if (rank != request.root) builder.message(0, request.root, 0, rank, 0, chunk);
    for (int other = 0; other < ranks; ++other) {
      if (other != rank && other != request.root) builder.message(1, rank, 0, other, 0, chunk);
    }
  }
  return std::move(builder).finish();
}

}  // namespace strata::collective
