// Sums in each host, then across hosts, then back: each host's network carries what one rank's
// would.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "collective/algorithms/partition.h"
#include "collective/algorithms/standard_algorithms.h"

namespace strata::collective {

Schedule hierarchical(const Request& request) {
  const LeafTree tree(leaves_of(request));
  const std::vector<int>& ranks = tree.ranks(0, tree.size());
  const auto host_of = [&](int rank) {
    return request.placement.host_of_rank[static_cast<size_t>(rank)];
  };
  std::map<int, std::vector<int>> ranks_of_host;
  for (const int rank : ranks) ranks_of_host[host_of(rank)].push_back(rank);

  int64_t parts = static_cast<int64_t>(ranks.size());
  for (const auto& [host, members] : ranks_of_host) {
    const int64_t both = std::lcm(parts, static_cast<int64_t>(ranks.size() * members.size()));
    if (both < int64_t{1} << 30) parts = both;
  }
  std::vector<int> owners = ranks;
  std::stable_sort(owners.begin(), owners.end(),
                   [&](int a, int b) { return host_of(a) < host_of(b); });
  const std::vector<Piece> whole = partition(owners, parts);
  std::map<int, std::vector<Piece>> shares_of_host;
  for (const auto& [host, members] : ranks_of_host) {
    shares_of_host[host] = partition_among(whole, members);
  }
  PartitionedTree divided(whole);
  const std::function<void(int, int)> visit = [&](int lo, int hi) {
    if (tree.ranks(lo, hi).size() == 1) return;
    std::set<int> hosts;
    for (const int rank : tree.ranks(lo, hi)) hosts.insert(host_of(rank));
    if (hosts.size() == 1) divided.add(lo, hi, shares_of_host[*hosts.begin()]);
    visit(lo, LeafTree::middle(lo, hi));
    visit(LeafTree::middle(lo, hi), hi);
  };
  visit(0, tree.size());
  return tree_reduce(request, "hierarchical", tree, divided.plan(), /*everywhere=*/true);
}

bool has_hosts_of_several_ranks(const Request& request) {
  const std::vector<int>& hosts = request.placement.host_of_rank;
  const size_t different = std::set<int>(hosts.begin(), hosts.end()).size();
  return different > 1 && different < hosts.size();
}

}  // namespace strata::collective
