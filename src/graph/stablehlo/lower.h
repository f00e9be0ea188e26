#pragma once

#include <string>
#include <vector>

#include "graph/stablehlo/strided.h"
#include "graph/tracer.h"

namespace strata::graph::stablehlo {

struct LowerOptions {
  /// That run the program at a time, each with arguments of its own; they meet in sums.
  int64_t num_replicas = 1;
  /// That one run makes, one after the other, in a loop on the device. Inputs and outputs then have one
  /// axis more, in front, of that size; gradients are the last step's.
  int64_t steps_per_run = 1;
};

/// What an argument of @main is.
struct Parameter {
  enum class Kind {
    kInput,    ///< Input number `input` of the graph, its elements `where`.
    kCapture,  ///< `tensor`'s elements `where`.
    kRandom,   ///< The state of the random numbers, `[2]` of UInt64; another one on each replica.
  };
  Kind kind = Kind::kInput;
  size_t input = 0;
  at::Tensor tensor = {};
  ValueId memory = kNoValue;  ///< The capture's first value in the graph.
  Geometry where = {};
  at::ScalarType dtype = at::kFloat;
  /// The result that is its next value, which takes its memory; -1: it is not written.
  int64_t next = -1;
};

/// A graph as a program for a compiler.
struct LoweredGraph {
  std::string text;
  std::vector<Parameter> parameters;
  /// Results: first the graph's outputs that are defined, then gradients, in the order of the trace's effects,
  /// then new values of parameters.
  size_t num_outputs = 0;
  size_t num_gradients = 0;
  size_t num_results = 0;
};

/// Writes a trace as StableHLO. Views and writes in place become values: each memory has contents, which a
/// write makes anew.
/// @throws Error  kUnimplemented: an operator, or a use of one, that has no rule; host functions. Names the
///   node.
LoweredGraph lower(const Trace& trace, const LowerOptions& options = {});

}  // namespace strata::graph::stablehlo
