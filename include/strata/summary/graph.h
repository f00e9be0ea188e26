#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "strata/core/export.h"

namespace strata::summary {

struct GraphNode {
  std::string name;  ///< "dense/MatMul" lies in the box "dense"
  std::string op;    ///< "MatMul"
  std::vector<std::string>
      inputs;               ///< names of nodes; "^name": runs after it; "name:1": its output 1
  std::string device = {};  ///< "/job:worker/task:0/device:GPU:0"; colours the graph
  std::optional<std::vector<int64_t>> output_shape = {};  ///< written beside the edge; -1 is "any"
};

/// What the Graphs page of TensorBoard draws.
class STRATA_API GraphDef {
 public:
  /// Nodes may come in any order. @return itself, for the next call.
  /// @throws Error  kInvalidArgument: no name, no op, or a name that is taken.
  GraphDef& add(GraphNode node);

  const std::vector<GraphNode>& nodes() const { return nodes_; }

  /// @throws Error  kInvalidArgument: an input that no node has as its name.
  void check_inputs() const;

 private:
  std::vector<GraphNode> nodes_;
  std::unordered_set<std::string> names_;
};

}  // namespace strata::summary
