#pragma once

#include "strata/keras/layer_impl.h"

namespace strata::keras::detail {

/// Where a graph's values come in. It computes nothing.
class InputLayerImpl final : public LayerImpl {
 public:
  /// @param is_text  The last dimension has the bytes of texts, of which files do not know.
  InputLayerImpl(Shape batch_shape, at::ScalarType dtype, const std::string& name,
                 bool is_text = false);
  std::string_view class_name() const override { return "InputLayer"; }
  const Shape& batch_shape() const { return batch_shape_; }
  at::ScalarType input_dtype() const { return input_dtype_; }
  /// As Keras has them, whose texts are elements.
  Shape saved_shape() const;
  std::string saved_dtype() const;

 protected:
  void describe(ConfigWriter& config) const override;
  Tensors call(const Tensors& inputs, const Call&) override { return inputs; }
  std::vector<Shape> compute_output_shapes(const std::vector<Shape>&, const Json&) const override {
    return {batch_shape_};
  }
  bool autocast() const override { return false; }

 private:
  Shape batch_shape_;
  at::ScalarType input_dtype_;
  bool is_text_;
};

SymbolicTensor make_input(const Shape& batch_shape, at::ScalarType dtype, const std::string& name);
/// @param batch_shape  Of the texts, without their bytes.
SymbolicTensor make_text_input(Shape batch_shape, const std::string& name);
/// The layer, if that is what `layer` is; else null.
const InputLayerImpl* as_input(const Layer& layer);

/// "float32", as Keras and NumPy name it.
std::string dtype_name(at::ScalarType dtype);
/// @throws Error kInvalidArgument: no such dtype.
at::ScalarType dtype_of_name(const std::string& name);

}  // namespace strata::keras::detail
