#pragma once

#include <optional>

#include "strata/keras/model.h"

namespace strata::keras::detail {

/// A model that is a row of layers.
class SequentialImpl final : public ModelImpl {
 public:
  explicit SequentialImpl(const std::string& name) : ModelImpl({.name = name}) {}

  std::string_view class_name() const override { return "Sequential"; }
  std::vector<Layer> layers() const override { return layers_; }

  void set_input(const SymbolicTensor& input);
  void add(const Layer& layer);
  void pop();
  /// Null until the shape of its input is known.
  const std::optional<SymbolicTensor>& input() const { return input_; }
  const std::optional<SymbolicTensor>& output() const { return output_; }

 protected:
  void build(const std::vector<Shape>& inputs) override;
  Tensors call(const Tensors& inputs, const Call& call) override;
  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& inputs,
                                           const Json& options) const override;
  std::vector<at::ScalarType> compute_output_dtypes(
      const std::vector<at::ScalarType>& inputs) const override;
  Outputs call_with_masks(const Tensors& inputs, const Call& call) override;
  bool autocast() const override { return false; }  // its layers do

 private:
  std::vector<Layer> layers_;
  std::optional<SymbolicTensor> input_;
  std::optional<SymbolicTensor> output_;
};

}  // namespace strata::keras::detail
