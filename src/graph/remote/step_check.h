#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/remote/step_graph.h"
#include "strata/core/export.h"

namespace strata::graph::remote {

/// What a step may refer to.
struct StepWorld {
  struct Held {
    at::ScalarType dtype;
    int64_t elements;  ///< That its memory has, from its first element on.
  };
  struct Parameter {
    at::ScalarType dtype;
    std::vector<int64_t> sizes;
  };
  std::vector<Held> states = {};
  std::vector<std::vector<Parameter>> updates = {};  ///< Of each optimizer.
  int64_t replicas = 1;
  uint64_t memory = 0;  ///< Bytes that its results may take together.
  uint64_t parts = 0;   ///< Values, nodes and operands that it may have.
};

/// Checks that a step from outside may run: that it holds together, has operators of the list of
/// step_operators.h alone, gives each arguments that it can have, and takes no more memory than is
/// allowed. Nothing is computed or allocated for it. Sets `bytes`, and what each node writes.
/// @throws Error  kInvalidArgument: names the node and what is wrong with it. kUnimplemented: an
///   operator that steps may not have. kResourceExhausted: beyond `world.memory` or `world.parts`.
STRATA_API void check_step(RemoteStep& step, const StepWorld& world);

}  // namespace strata::graph::remote
