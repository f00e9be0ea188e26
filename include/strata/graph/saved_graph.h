#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/core/read_limits.h"
#include "strata/graph/inference.h"

namespace strata::graph {

/// Writes an inference graph with its weights in a format of strata's (proto/strata/saved_graph.proto). The
/// file appears whole or not at all.
/// @throws Error  kUnimplemented: an operator that saved graphs may not have, which are those that
///   export_onnx has a rule for; a graph that writes variables; a number of an unknown kind. Names the
///   node. Errors of core/file_system.h.
/// Threads: any.
STRATA_API void save_graph(const InferenceGraph& graph, const std::string& path);

/// A graph that was saved, ready to run without the program that made it. A handle; copies share their
/// weights.
/// Source: tf.saved_model.load.
class STRATA_API LoadedGraph {
 public:
  explicit LoadedGraph(InferenceGraph graph);

  /// @param inputs  On the CPU, of the dtypes and sizes that were traced; of any number of examples, if
  ///   it was traced so.
  /// @return The outputs, with the bits that libtorch's operators have here.
  /// @throws Error  kInvalidArgument: other inputs. What libtorch's operators throw.
  /// Threads: any, at once.
  std::vector<at::Tensor> operator()(const std::vector<at::Tensor>& inputs) const;

  const InferenceGraph& graph() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// Reads a file of save_graph's. All of it is checked before its weights get memory: that it is whole (a
/// checksum), that it holds together, and that it has known operators alone, with numbers of their kinds.
/// @param limits  `parts`: of values, nodes and arguments in all.
/// @throws Error  kDataLoss: not such a file, or damaged. kUnimplemented: of a later version, or with an
///   operator that graphs may not have. kResourceExhausted: beyond `limits`, or the machine's memory. Errors
///   of core/file_system.h.
STRATA_API LoadedGraph load_graph(const std::string& path, const ReadLimits& limits = {});

}  // namespace strata::graph
