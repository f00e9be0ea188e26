#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/graph/graph.h"

namespace strata::graph {

/// A number of a graph that grows with the number of examples.
struct BatchTerm {
  enum class Part {
    kSize,    ///< `sizes[element]` of value `index`.
    kStride,  ///< `strides[element]` of value `index`.
    kOffset,  ///< `offset` of value `index`.
    kNumber,  ///< Argument `argument` of node `index`, a number or element `element` of a list.
  };
  Part part = Part::kSize;
  int32_t index = 0;
  int32_t argument = 0;
  int32_t element = 0;
  int64_t per_example = 0;  ///< How much larger it is for one example more.
};

/// A model's forward pass without training. It has no gradients, and reads its weights as captures.
struct InferenceGraph {
  Graph graph;
  /// How many examples `graph` is for; the first dimension of all inputs. 0: this is not known, and
  /// the graph is for its inputs' sizes alone.
  int64_t batch = 0;
  std::vector<BatchTerm> terms = {};  ///< What else changes with that.
};

struct InferenceOptions {
  std::string name = "inference";  ///< For messages, and in files.
  /// The inputs' first dimension is that of examples, and the graph is to hold for any number of them.
  bool any_batch = false;
};

using InferenceFunction =
    std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

/// Records what `function` computes from `inputs`, without computing it and without gradients.
/// Operators of strata's own are recorded as the libtorch operators that they consist of.
/// @param inputs  Only sizes and dtypes count. At least one, with `any_batch`.
/// @throws Error  kFailedPrecondition: `function` cannot be recorded (docs/function.md); with `any_batch`,
///   it does something else for another number of examples. kInvalidArgument: with `any_batch`, inputs
///   whose first dimensions differ. kUnimplemented: sparse tensors, tensors on a GPU.
/// Cost: one recording, two with `any_batch`.
/// Threads: any.
STRATA_API InferenceGraph trace_inference(const InferenceFunction& function,
                                          const std::vector<at::Tensor>& inputs,
                                          const InferenceOptions& options = {});

/// The same of a torch::nn::Module whose `forward` has one tensor and returns one; in evaluation mode.
template <typename Module>
requires requires(Module& module, const at::Tensor& x) {
  module.is_training();
  { module.forward(x) } -> std::convertible_to<at::Tensor>;
}
InferenceGraph trace_inference(Module& module, const at::Tensor& input,
                               const InferenceOptions& options = {}) {
  const bool training = module.is_training();
  module.train(false);
  try {
    InferenceGraph result = trace_inference(
        [&](const std::vector<at::Tensor>& inputs) {
          return std::vector<at::Tensor>{module.forward(inputs[0])};
        },
        {input}, options);
    module.train(training);
    return result;
  } catch (...) {
    module.train(training);
    throw;
  }
}

/// The graph for another number of examples.
/// @throws Error  kInvalidArgument: it is for one number alone, or `batch` is below 1.
STRATA_API Graph at_batch(const InferenceGraph& graph, int64_t batch);

}  // namespace strata::graph
