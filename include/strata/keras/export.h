#pragma once

#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/model.h"

namespace strata::keras {

struct ExportOptions {
  /// "onnx", for other programs (graph/onnx.h), or "strata", for graph::load_graph (graph/saved_graph.h).
  std::string format = "onnx";
  /// Examples of the inputs, for models whose inputs have unknown sizes but the batch, or are unknown.
  /// Only their sizes and dtypes count.
  Tensors inputs = {};
  /// The file takes any number of examples. Unset: if the model's inputs do; not with `inputs`.
  std::optional<bool> any_batch = {};
};

/// Writes the model's forward pass, without training, with its weights; ONNX has the names of inputs and weights,
/// too (docs/export.md). The replicas' copies are the same; where they are in several processes, all of
/// these make the call, and the chief writes.
/// @throws Error  kInvalidArgument: inputs of unknown sizes. kFailedPrecondition: the model cannot be
///         recorded (docs/function.md), or is another one for each number of examples. kUnimplemented: an
///         operation that ONNX or strata's export does not have; names it.
/// Source: keras.Model.export.
STRATA_API void export_model(const Model& model, const std::string& path,
                             const ExportOptions& options = {});

}  // namespace strata::keras
