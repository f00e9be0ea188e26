#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/graph/inference.h"

namespace strata::graph {

struct OnnxOptions {
  /// Of the graph's inputs and outputs, in order; those without one are "input", "input_1", ... and
  /// "output", "output_1", ...
  std::vector<std::string> input_names = {};
  std::vector<std::string> output_names = {};
  /// Names of weights, for those who look at the file.
  std::vector<std::pair<std::string, at::Tensor>> weight_names = {};
};

/// The version of ONNX's operators in files that strata writes.
inline constexpr int64_t kOnnxOpset = 17;

/// Writes the graph as an ONNX file (IR version 8), with its weights; the file appears whole or not at
/// all. A graph of any batch has "batch" as its inputs' first dimension. What depends on weights alone is
/// computed, and kept as a weight.
/// @throws Error  kUnimplemented: an operator, or a use of one, that has no counterpart; a graph that writes
///   variables; 2 GiB or more, which such a file cannot have. Names the node. Errors of
///   core/file_system.h.
/// Threads: any.
/// Source: ONNX 1.12.
STRATA_API void export_onnx(const InferenceGraph& graph, const std::string& path,
                            const OnnxOptions& options = {});

}  // namespace strata::graph
