// A model's inference graph, as another program's file.
#include <ATen/ops/empty.h>

#include "keras/graph/node.h"
#include "keras/saving/weight_groups.h"
#include "runtime/group_agreement.h"
#include "strata/core/error.h"
#include "strata/graph/inference.h"
#include "strata/graph/onnx.h"
#include "strata/graph/saved_graph.h"
#include "strata/keras/export.h"

namespace strata::keras {
namespace {

struct Examples {
  Tensors inputs;
  bool any_batch = false;
};

/// Of the sizes that the model's inputs have.
Examples examples_of(const Model& model, const std::string& path) {
  const std::vector<SymbolicTensor> symbols = model.inputs();
  STRATA_CHECK(
      !symbols.empty(), kFailedPrecondition, "[keras] export '", path, "': got model \"",
      model.name(),
      "\", which has no inputs of known shapes; call it once if it is a Sequential, or pass "
      ".inputs, examples of them");
  Examples examples{.inputs = {}, .any_batch = true};
  for (const SymbolicTensor& symbol : symbols) {
    Shape shape = symbol.shape();
    examples.any_batch = examples.any_batch && shape.at(0) == kNone;
    if (shape[0] == kNone) shape[0] = 2;
    for (const int64_t size : shape) {
      STRATA_CHECK(
          size != kNone, kInvalidArgument, "[keras] export '", path, "': got an input of shape ",
          to_string(symbol.shape()),
          "; expected one without unknown sizes but the batch; pass .inputs, examples with "
          "the sizes that are to be exported");
    }
    examples.inputs.push_back(at::empty(shape, at::dtype(symbol.dtype())));
  }
  return examples;
}

graph::OnnxOptions names_of(const Model& model) {
  graph::OnnxOptions options;
  for (const detail::WeightsPlace& place : detail::weights_places(model)) {
    for (const Weight& weight : place.weights) {
      options.weight_names.emplace_back(
          place.names.empty() ? weight.name : place.names + '/' + weight.name,
          weight.variable.value().detach());
    }
  }
  for (const SymbolicTensor& input : model.inputs()) {
    options.input_names.push_back(input.node()->layer.name());
  }
  return options;
}

}  // namespace

void export_model(const Model& model, const std::string& path, const ExportOptions& options) {
  const bool as_onnx = options.format == "onnx";
  STRATA_CHECK(as_onnx || options.format == "strata", kUnimplemented, "[keras] export '", path,
               "': got format '", options.format, "'; expected 'onnx' or 'strata'");
  Examples examples =
      options.inputs.empty() ? examples_of(model, path) : Examples{.inputs = options.inputs};
  if (options.any_batch) examples.any_batch = *options.any_batch;
  const graph::InferenceGraph graph = graph::trace_inference(
      [&](const Tensors& inputs) { return model.call(inputs, Call{}); }, examples.inputs,
      {.name = model.name(), .any_batch = examples.any_batch});
  strata::detail::run_on_chief(model->strategy().group(), "exporting a model", [&] {
    if (as_onnx) {
      graph::export_onnx(graph, path, names_of(model));
    } else {
      graph::save_graph(graph, path);
    }
  });
}

}  // namespace strata::keras
