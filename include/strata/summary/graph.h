#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "strata/core/export.h"

namespace strata::summary {

struct GraphNode {
  std::string name;  ///< "dense/MatMul" is drawn in the box "dense"
  std::string op;    ///< "MatMul"
  std::vector<std::string>
      inputs;               ///< names of nodes; "^name": runs after it; "name:1": its output 1
  std::string device = {};  ///< "/job:worker/task:0/device:GPU:0"; colours the graph
  std::optional<std::vector<int64_t>> output_shape = {};  ///< written beside the edge; -1 is "any"
};

/// A graph on TensorBoard's Graphs page.
class STRATA_API GraphDef {
 public:
  /// Adds a node, in any order. @return itself, for the next call.
  /// @throws Error  kInvalidArgument: no name, no op, or an existing name.
  GraphDef& add(GraphNode node);

  const std::vector<GraphNode>& nodes() const { return nodes_; }

  /// @throws Error  kInvalidArgument: an input that is no node's name.
  void check_inputs() const;

 private:
  std::vector<GraphNode> nodes_;
  std::unordered_set<std::string> names_;
};

}  // namespace strata::summary
