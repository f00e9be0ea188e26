#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "collective/algorithms/tree_reduction.h"

namespace strata::collective {

/// A part of the buffer and who holds it.
struct Piece {
  int64_t begin = 0;
  int64_t end = 0;
  int rank = 0;
};

/// The buffer divided among `ranks`, each the same share, in this order.
std::vector<Piece> partition(const std::vector<int>& ranks, int64_t parts);

/// The buffer divided among `members`, some of the holders of `pieces`: they keep their own pieces,
/// and each takes the same share of what others hold. So a member gives away no more than the
/// difference of the two shares when the sum over members is joined with that over the others.
std::vector<Piece> partition_among(const std::vector<Piece>& pieces,
                                   const std::vector<int>& members);

/// A number of parts that can be divided among the ranks of every node of the tree (or nearly so,
/// where that would be too large a number).
int64_t parts_for(const LeafTree& tree);

/// A plan of divided nodes: who holds what of the whole and of some nodes.
class PartitionedTree {
 public:
  explicit PartitionedTree(std::vector<Piece> whole) : whole_(std::move(whole)) {}

  void add(int lo, int hi, std::vector<Piece> pieces) { nodes_[{lo, hi}] = std::move(pieces); }
  const std::vector<Piece>& node(int lo, int hi) const { return nodes_.at({lo, hi}); }

  /// Chunks between all borders of pieces; nodes that were not added are joined at the chunk's
  /// owner.
  TreePlan plan() const;

 private:
  std::vector<Piece> whole_;
  std::map<std::pair<int, int>, std::vector<Piece>> nodes_;
};

}  // namespace strata::collective
