#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/saved/saved_messages.h"

/// The messages of a step that is sent to a server. The contract is proto/strata/step_graph.proto.
namespace strata::graph::remote {

using detail::MessageOf;

inline constexpr uint64_t kStepVersion = 1;

/// What a node is a call of.
enum class Work : uint64_t {
  kOperator = 0,   ///< An operator of the dispatcher.
  kAllReduce = 1,  ///< `numbers`: the ReduceOp.
  kAllGather = 2,  ///< `numbers`: the axis.
  kUpdate = 3,     ///< Of optimizer `update`; `numbers`: the weight.
  /// Of batch normalization over all replicas; `numbers`: the elements of a channel.
  kMergeMoments = 4,
  kAssign = 5,  ///< A variable and its new value, the same on all replicas.
  /// Of a recurrent layer behind a mask (kernels/masked_recurrent.h); `numbers`: its states, whether it gives
  /// all outputs, whether it gives zeros where nothing counts, and of each gradient whether it is wanted.
  kMaskedSteps = 6,
  kMaskedStepsBackward = 7,  ///< Gradients of its outputs, then what it was given.
};
inline constexpr Work kLastWork = Work::kMaskedStepsBackward;

struct StepValue {
  saved::SavedValue value;
  /// Of captures, states and constants: the tensor of the session that it is a view of; its offset
  /// counts from that tensor's first element.
  int64_t state = 0;
  /// A number that was made a tensor, which counts less when dtypes are chosen.
  bool number = false;
};

struct StepNode {
  saved::SavedNode node;
  uint64_t work = 0;
  std::vector<double> numbers = {};
  int64_t update = 0;
  /// Of kUpdate, if some gradients are sparse: how many sparse dimensions each one has. Such a one is two
  /// tensors, indices and values.
  std::vector<int64_t> sparse = {};
};

/// One replica's.
struct StepGraph {
  uint64_t version = 0;
  std::string name;
  std::vector<StepValue> values = {};
  std::vector<StepNode> nodes = {};
  std::vector<int64_t> inputs = {};
  std::vector<int64_t> outputs = {};
};

void visit_fields(auto& field, MessageOf<StepValue> auto& value) {
  field(1, "value", value.value);
  field(2, "state", value.state);
  field(3, "number", value.number);
}

void visit_fields(auto& field, MessageOf<StepNode> auto& node) {
  field(1, "node", node.node);
  field(2, "work", node.work);
  field(3, "numbers", node.numbers);
  field(4, "update", node.update);
  field(5, "sparse", node.sparse);
}

void visit_fields(auto& field, MessageOf<StepGraph> auto& graph) {
  field(1, "version", graph.version);
  field(2, "name", graph.name);
  field(3, "values", graph.values);
  field(4, "nodes", graph.nodes);
  field(5, "inputs", graph.inputs);
  field(6, "outputs", graph.outputs);
}

}  // namespace strata::graph::remote
