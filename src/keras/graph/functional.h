#pragma once

#include "keras/graph/graph.h"
#include "strata/keras/model.h"

namespace strata::keras::detail {

/// A model that is a graph.
class FunctionalImpl final : public ModelImpl {
 public:
  FunctionalImpl(std::vector<SymbolicTensor> inputs, std::vector<SymbolicTensor> outputs,
                 const std::string& name);

  std::string_view class_name() const override { return "Functional"; }
  std::string_view module() const override { return "keras.src.models.functional"; }
  std::vector<Layer> layers() const override { return graph_.layers(); }
  size_t num_inputs() const override { return graph_.inputs().size(); }
  const Graph& graph() const { return graph_; }

 protected:
  Tensors call(const Tensors& inputs, const Call& call) override;
  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& inputs,
                                           const Json& options) const override;
  std::vector<at::ScalarType> compute_output_dtypes(
      const std::vector<at::ScalarType>& inputs) const override;
  Outputs call_with_masks(const Tensors& inputs, const Call& call) override;
  bool autocast() const override { return false; }  // its layers do

 private:
  Graph graph_;
};

}  // namespace strata::keras::detail
