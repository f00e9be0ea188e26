#include "keras/layers/merge_shapes.h"

#include <set>

#include "core/join.h"
#include "strata/core/error.h"

namespace strata::layers {

using keras::kNone;
using keras::Shape;
using keras::Tensors;

std::string to_string(const std::vector<Shape>& shapes) {
  return '[' + join(shapes, [](const Shape& shape) { return keras::to_string(shape); }) + ']';
}

std::vector<Shape> shapes_of(const Tensors& inputs) {
  std::vector<Shape> shapes;
  for (const at::Tensor& input : inputs) shapes.push_back(input.sizes().vec());
  return shapes;
}

int64_t common_batch(const std::vector<Shape>& inputs, const std::string& layer) {
  std::set<int64_t> sizes;
  for (const Shape& input : inputs) {
    if (!input.empty() && input[0] != kNone) sizes.insert(input[0]);
  }
  STRATA_CHECK(sizes.size() <= 1, kInvalidArgument, "[keras] Layer \"", layer,
               "\": Cannot merge tensors with different batch sizes. Received tensors with shapes ",
               to_string(inputs));
  return sizes.empty() ? kNone : *sizes.begin();
}

}  // namespace strata::layers
