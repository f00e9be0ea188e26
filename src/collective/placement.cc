#include "strata/collective/algorithms.h"

#include <algorithm>

#include "strata/core/error.h"

namespace strata::collective {

Placement Placement::blocks(const std::vector<int>& replicas_per_rank, int ranks_per_host) {
  STRATA_CHECK(ranks_per_host > 0, kInvalidArgument, "[placement] blocks: got ", ranks_per_host,
               " ranks a host; expected at least 1");
  Placement placement;
  for (size_t rank = 0; rank < replicas_per_rank.size(); ++rank) {
    placement.host_of_rank.push_back(static_cast<int>(rank) / ranks_per_host);
    for (int i = 0; i < replicas_per_rank[rank]; ++i) {
      placement.rank_of_replica.push_back(static_cast<int>(rank));
    }
  }
  return placement;
}

std::vector<int> Placement::replicas_of(int rank) const {
  std::vector<int> result;
  for (int replica = 0; replica < num_replicas(); ++replica) {
    if (rank_of_replica[static_cast<size_t>(replica)] == rank) result.push_back(replica);
  }
  return result;
}

bool Placement::on_one_host() const {
  return std::ranges::all_of(host_of_rank, [&](int host) { return host == host_of_rank[0]; });
}

void Placement::check() const {
  STRATA_CHECK(num_ranks() > 0, kInvalidArgument, "[placement] got no rank; expected at least one");
  STRATA_CHECK(num_replicas() > 0, kInvalidArgument,
               "[placement] got no replica; expected at least one");
  for (int replica = 0; replica < num_replicas(); ++replica) {
    const int rank = rank_of_replica[static_cast<size_t>(replica)];
    STRATA_CHECK(rank >= 0 && rank < num_ranks(), kInvalidArgument, "[placement] replica ", replica,
                 " is on rank ", rank, "; expected 0 to ", num_ranks() - 1);
  }
}

std::vector<int> hosts_of(const std::vector<std::string>& identities) {
  std::vector<std::string> known;
  std::vector<int> hosts;
  for (const std::string& identity : identities) {
    const auto found = std::find(known.begin(), known.end(), identity);
    hosts.push_back(static_cast<int>(found - known.begin()));
    if (found == known.end()) known.push_back(identity);
  }
  return hosts;
}

}  // namespace strata::collective
