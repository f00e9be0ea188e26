#pragma once

#include <vector>

#include "strata/keras/layer.h"

namespace strata::keras::detail {

/// One symbolic call of a layer. It keeps alive what it was made of; nothing points the other way.
struct Node {
  Layer layer;
  std::vector<SymbolicTensor> inputs;
  Json options;  ///< As Call::options.
  std::vector<Shape> shapes;
  std::vector<at::ScalarType> dtypes;
};

}  // namespace strata::keras::detail
