#include "strata/keras/layer.h"

#include "keras/graph/input_layer.h"
#include "keras/graph/node.h"

namespace strata::keras {

const Shape& SymbolicTensor::shape() const { return node_->shapes[index_]; }
at::ScalarType SymbolicTensor::dtype() const { return node_->dtypes[index_]; }

SymbolicTensor Input(const Shape& shape, const InputOptions& options) {
  Shape batch_shape = {options.batch_size};
  batch_shape.insert(batch_shape.end(), shape.begin(), shape.end());
  return detail::make_input(batch_shape, options.dtype, options.name);
}

}  // namespace strata::keras
