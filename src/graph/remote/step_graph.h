#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/remote/step_messages.h"
#include "graph/tracer.h"
#include "strata/core/export.h"
#include "strata/graph/graph.h"

namespace strata::graph::remote {

/// A node's work beside that of operators.
struct HostWork {
  Work work = Work::kOperator;
  std::vector<double> numbers = {};
  size_t update =
      0;  ///< Of kUpdate: the optimizer; of kAssign, set by check_step: the session's tensor.
  std::vector<int64_t> sparse = {};  ///< As StepNode::sparse.
};

/// A replica's step as a server has it. Captures, states and constants have no tensors: they are views
/// of the session's tensors.
struct RemoteStep {
  Graph graph;
  std::vector<int64_t> states;  ///< By value: the session's tensor; -1: of another kind.
  std::vector<bool> numbers;    ///< By value: a number that was made a tensor.
  std::vector<HostWork> work;   ///< By node.
  uint64_t bytes = 0;  ///< Of its results together, which a run allocates; set by check_step.
};

/// Where a captured tensor is among the session's.
struct StatePlace {
  int64_t state;
  int64_t offset;  ///< Of its first element in the session's tensor, in elements.
};

/// That of a node of this process. A host function of any other name counts as an update.
STRATA_API Work work_of(const Node& node);

/// The client's side.
/// @param place  Of a capture, a state or a constant.
/// @param update  The number of an optimizer, of which `node` is an update.
/// @throws Error  kUnimplemented: a node or a number that a server cannot have; names the node.
STRATA_API std::string encode_step(const Trace& trace,
                                   const std::function<StatePlace(const Value&)>& place,
                                   const std::function<int64_t(const Node&)>& update);

/// The inverse: what has the form of a step. Whether it may run, check_step says.
/// @throws Error  kDataLoss: not such a message. kUnimplemented: another version.
/// Cost: memory of about 100 times the message's bytes, for a while.
STRATA_API RemoteStep decode_step(std::string_view bytes);

}  // namespace strata::graph::remote
