#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "graph/tracer.h"
#include "optim/step/shipped_update.h"
#include "strata/runtime/variable.h"

namespace strata::tpu {

/// A recorded step whose optimizers' updates are nodes that a compiler has rules for.
struct CompilableStep {
  /// An optimizer's state, as a value of the graph.
  struct Slot {
    size_t update;
    size_t index;  ///< Of ShippedUpdate::shipped_slots.
  };
  std::shared_ptr<const graph::Trace> trace;
  /// The graph's last inputs are their numbers (ShippedUpdate::next_numbers), one input for each update.
  std::vector<std::shared_ptr<optimizers::ShippedUpdate>> updates;
  // By memory.
  std::map<graph::ValueId, Slot> slots;
  std::map<graph::ValueId, Variable> variables;  ///< That the updates write.
};

/// Puts "strata::update_step" in place of each update, behind the sums of its gradients over the replicas, and
/// gives parts of one storage that do not overlap memories of their own.
/// @throws Error  kUnimplemented: an optimizer with an option that has no rule; names it.
CompilableStep with_update_nodes(const graph::Trace& trace, int64_t num_replicas);

}  // namespace strata::tpu
