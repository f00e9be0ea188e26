#pragma once

#include <cstddef>
#include <vector>

#include "strata/collective/algorithms.h"

namespace strata::collective {

/// What each rank adds up itself before ranks join: the nodes of the tree over replica ids all of
/// whose replicas are the rank's, as large ones as there are.
class LocalSubtrees {
 public:
  struct Node {
    int rank = 0;
    int index = 0;  ///< among the rank's nodes
    int first = 0;  ///< of its replicas, among the rank's
    int replicas =
        1;  ///< with consecutive ids: the node is the tree over them; 1: the value itself
  };

  explicit LocalSubtrees(const Placement& placement);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Node>& of(int rank) const { return of_rank_[static_cast<size_t>(rank)]; }
  /// Of the rank that has most.
  int most() const { return most_; }
  /// The tree over all replicas is the tree over these nodes, by number; kAbsent: none there.
  const std::vector<int>& sources() const { return sources_; }

 private:
  std::vector<Node> nodes_;
  std::vector<std::vector<Node>> of_rank_;
  std::vector<int> sources_;
  int most_ = 0;
};

}  // namespace strata::collective
