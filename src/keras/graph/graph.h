#pragma once

#include <optional>
#include <string>
#include <vector>

#include "keras/graph/node.h"
#include "strata/keras/layer_impl.h"

namespace strata::keras::detail {

/// Whole numbers for an input that was described as floating become such.
at::Tensor as_declared(const at::Tensor& value, const SymbolicTensor& input);

/// The calls between some symbolic tensors, as a plan: each step takes values from slots and leaves
/// values in slots. Immutable; every replica runs it at once.
class Graph {
 public:
  /// @throws Error kInvalidArgument: outputs that need an input which is not among `inputs`.
  Graph(std::vector<SymbolicTensor> inputs, std::vector<SymbolicTensor> outputs,
        const std::string& model);

  /// @param call  Its masks are the inputs'.
  LayerImpl::Outputs run(const Tensors& inputs, const Call& call) const;

  /// Shapes of the outputs for inputs of other shapes than described.
  std::vector<Shape> shapes_for(const std::vector<Shape>& inputs) const;

  const std::vector<SymbolicTensor>& inputs() const { return inputs_; }
  const std::vector<SymbolicTensor>& outputs() const { return outputs_; }
  /// All calls, inputs' ones too, an order in which each comes after what it needs.
  const std::vector<const Node*>& nodes() const { return nodes_; }
  /// The same in the order in which they were made, in which Keras numbers a layer's calls.
  std::vector<const Node*> nodes_as_made() const;
  /// Every layer once, in Keras's order of `model.layers` (operations among them).
  const std::vector<Layer>& layers() const { return layers_; }

 private:
  struct Step {
    LayerImpl* layer;
    const Node* node;
    std::vector<size_t> from;
    size_t to;                  ///< The first of its outputs' slots.
    std::vector<size_t> spent;  ///< Slots that no caller needs afterwards.
    /// Steps behind this one that it may do at the same time (fusion.h), and the slot of what it
    /// adds there.
    size_t covers = 0;
    std::optional<size_t> beside = {};
    /// A sum that the next step, a normalization of rows, may do at the same time.
    bool before_normalization = false;
    /// Of a recurrent layer: the slot of the words of the embedding in front of it.
    std::optional<size_t> words = {};
  };

  /// How many layers take each slot; what the model gives counts as two.
  std::vector<size_t> count_uses() const;
  /// Puts what can be one pass side by side.
  void fuse_steps();
  void fuse_sums_and_normalizations();
  /// Tells recurrent layers the words of what embeddings give them alone.
  void find_words();
  /// Both steps from `sum` on, if their values allow it. @return whether they were done.
  bool run_normalized_sum(size_t sum, const Call& call, Tensors& values) const;

  std::vector<SymbolicTensor> inputs_;
  std::vector<SymbolicTensor> outputs_;
  std::vector<const Node*> nodes_;
  std::vector<Layer> layers_;
  std::vector<Step> steps_;
  std::vector<size_t> output_slots_;
  size_t num_slots_ = 0;
};

}  // namespace strata::keras::detail
