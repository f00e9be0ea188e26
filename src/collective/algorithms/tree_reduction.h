#pragma once

#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "collective/algorithms/schedule_builder.h"
#include "strata/collective/algorithms.h"

namespace strata::collective {

/// What is at one place of the tree: one replica, or, in any order, all of a rank's.
struct Leaf {
  int rank = 0;
  std::vector<int> slots = {};  ///< of the rank
};

/// The same tree with fewer places: pairs of which only the left is taken become one, and empty
/// places (Schedule::kAbsent) at the end go.
std::vector<int> compressed(std::vector<int> places);

/// The leaves of the tree over replica ids; for Order::kAny a leaf a rank, host by host.
std::vector<Leaf> leaves_of(const Request& request);

/// The tree over leaves [0, n), and which ranks hold leaves of a node.
class LeafTree {
 public:
  explicit LeafTree(std::vector<Leaf> leaves);

  int size() const { return static_cast<int>(leaves_.size()); }
  const Leaf& leaf(int index) const { return leaves_[static_cast<size_t>(index)]; }
  /// Where the left part of [lo, hi) ends; hi - lo >= 2.
  static int middle(int lo, int hi);
  /// Ascending in the order of their first leaves.
  const std::vector<int>& ranks(int lo, int hi) const { return ranks_.at({lo, hi}); }

 private:
  void add(int lo, int hi);

  std::vector<Leaf> leaves_;
  std::map<std::pair<int, int>, std::vector<int>> ranks_;
};

/// At which rank the sides of node [lo, hi), which several ranks hold leaves of, are joined for
/// rank `wanted_by`, one chunk's. An algorithm for all_reduce is little more than such a function.
using OwnerOf = std::function<int(int lo, int hi, int chunk, int wanted_by)>;

/// Writes into a builder what brings the tree's value to a rank.
class TreeReduction {
 public:
  /// @param flatten  Nodes that are joined at one place are one step, which reads each value once.
  ///   False where other ranks want the nodes in between.
  TreeReduction(ScheduleBuilder& builder, const LeafTree& tree, OwnerOf place, bool flatten = true);

  /// The tree's value of `chunk` in `rank`'s result.
  /// @return the stage in which it is there.
  int reduce_to(int rank, int chunk);

  /// The messages that parts of a chunk have travelled in.
  struct Edge {
    int chunk, from, to, stage;
    int depth;  ///< of the node in the tree
  };
  const std::vector<Edge>& edges() const { return edges_; }

  /// The stage in which the last of the results was there.
  int last_stage() const { return last_stage_; }

 private:
  struct Value {
    int slot = 0;
    int stage = 0;
    bool received = false;
  };
  struct Sources {
    std::vector<int> slots;
    int stage = 0;
    int reusable = -1;
  };

  Value value_at(int rank, int lo, int hi, int chunk, int depth);
  void collect(int rank, int lo, int hi, int base, int chunk, int depth, Sources& sources);
  Value leaf_at_owner(int index, int chunk);
  Value receive(int rank, int lo, int hi, int chunk, int owner, int depth);
  int owner_of(int rank, int lo, int hi, int chunk) const;
  int scratch(int rank, int lo, int hi, Schedule::Slot kind, bool received);

  ScheduleBuilder& builder_;
  const LeafTree& tree_;
  OwnerOf owner_of_;
  bool flatten_;
  int last_stage_ = 0;
  std::map<std::tuple<int, int, int, int>, Value> values_;  // (rank, lo, hi, chunk)
  std::map<std::tuple<int, int, int, bool>, int> slots_;    // (rank, lo, hi, received)
  std::vector<Edge> edges_;
};

/// Writes messages that bring results from `owners[chunk]` to all ranks, over `edges` backwards,
/// the last edge first.
/// @param ready  The stage in which each chunk's result is there.
/// @param first  The stage of the first message.
void spread(ScheduleBuilder& builder, std::vector<TreeReduction::Edge> edges,
            const std::vector<int>& owners, const std::vector<int>& ready, int first);

/// A builder with every rank's result and values.
ScheduleBuilder builder_for(const Request& request, std::string name, std::vector<int64_t> borders);

/// {0, 1, ..., count}.
std::vector<int64_t> equal_borders(int count);

/// What makes an algorithm of the tree's kind: cuts the buffer, says where chunks end up and where
/// nodes are joined.
struct TreePlan {
  std::vector<int64_t> borders;
  std::vector<int> owners;  ///< by chunk
  OwnerOf place;
};

/// Each node is joined at its place; chunk c's result is at `owners[c]`, and, if `everywhere`, at
/// all other ranks.
Schedule tree_reduce(const Request& request, std::string name, const LeafTree& tree,
                     const TreePlan& plan, bool everywhere);

/// Results that lie at `owners` go to every rank, over the paths on which parts from all leaves
/// would come to them. The leaves' ranks are the request's.
Schedule tree_gather(const Request& request, std::string name, const LeafTree& tree,
                     const TreePlan& plan);

}  // namespace strata::collective
