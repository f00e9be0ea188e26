#include "collective/algorithms/partition.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <set>

namespace strata::collective {
namespace {

int holder_of(const std::vector<Piece>& pieces, int64_t position) {
  const auto after =
      std::upper_bound(pieces.begin(), pieces.end(), position,
                       [](int64_t p, const Piece& piece) { return p < piece.begin; });
  return std::prev(after)->rank;
}

}  // namespace

std::vector<Piece> partition(const std::vector<int>& ranks, int64_t parts) {
  const auto count = static_cast<int64_t>(ranks.size());
  std::vector<Piece> pieces;
  for (int64_t i = 0; i < count; ++i) {
    pieces.push_back({parts * i / count, parts * (i + 1) / count, ranks[static_cast<size_t>(i)]});
  }
  return pieces;
}

std::vector<Piece> partition_among(const std::vector<Piece>& pieces,
                                   const std::vector<int>& members) {
  const std::set<int> group(members.begin(), members.end());
  std::vector<Piece> result;
  std::vector<Piece> others;
  int64_t total = 0;
  for (const Piece& piece : pieces) {
    if (group.contains(piece.rank)) {
      result.push_back(piece);
    } else {
      others.push_back(piece);
      total += piece.end - piece.begin;
    }
  }
  // One holder's pieces after the other's, so that equally many holders pair up.
  std::stable_sort(others.begin(), others.end(),
                   [](const Piece& a, const Piece& b) { return a.rank < b.rank; });
  std::vector<int> takers(group.begin(), group.end());
  const auto count = static_cast<int64_t>(takers.size());
  int64_t passed = 0;
  for (const Piece& piece : others) {
    for (int64_t at = piece.begin; at < piece.end;) {
      const int64_t before = passed + (at - piece.begin);
      int64_t taker = std::min(count - 1, before * count / total);
      while (taker < count - 1 && total * (taker + 1) / count <= before) ++taker;
      const int64_t share_end = taker == count - 1 ? total : total * (taker + 1) / count;
      const int64_t end = std::min(piece.end, at + (share_end - before));
      result.push_back({at, end, takers[static_cast<size_t>(taker)]});
      at = end;
    }
    passed += piece.end - piece.begin;
  }
  std::sort(result.begin(), result.end(),
            [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  return result;
}

int64_t parts_for(const LeafTree& tree) {
  constexpr int64_t kMost = int64_t{1} << 30;  // so that products with a number of ranks fit
  int64_t parts = 1;
  const std::function<void(int, int)> visit = [&](int lo, int hi) {
    const auto count = static_cast<int64_t>(tree.ranks(lo, hi).size());
    if (count < 2) return;
    const int64_t both = std::lcm(parts, count);
    parts = both <= kMost ? both : parts;
    visit(lo, LeafTree::middle(lo, hi));
    visit(LeafTree::middle(lo, hi), hi);
  };
  visit(0, tree.size());
  return parts;
}

TreePlan PartitionedTree::plan() const {
  std::set<int64_t> cuts;
  const auto cut = [&](const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) cuts.insert({piece.begin, piece.end});
  };
  cut(whole_);
  for (const auto& [node, pieces] : nodes_) cut(pieces);

  TreePlan plan;
  plan.borders.assign(cuts.begin(), cuts.end());
  for (size_t chunk = 0; chunk + 1 < plan.borders.size(); ++chunk) {
    plan.owners.push_back(holder_of(whole_, plan.borders[chunk]));
  }
  const auto shared = std::make_shared<const PartitionedTree>(*this);
  plan.place = [shared, borders = plan.borders, owners = plan.owners](int lo, int hi, int chunk,
                                                                      int) {
    const auto node = shared->nodes_.find({lo, hi});
    return node == shared->nodes_.end()
               ? owners[static_cast<size_t>(chunk)]
               : holder_of(node->second, borders[static_cast<size_t>(chunk)]);
  };
  return plan;
}

}  // namespace strata::collective
