#pragma once

#include <cstdint>
#include <vector>

#include "strata/keras/layer.h"

namespace strata::keras::detail {

/// Counts the calls of this process.
uint64_t next_call_number();

/// One symbolic call of a layer. It keeps alive what it was made of; nothing points the other way.
struct Node {
  Layer layer;
  std::vector<SymbolicTensor> inputs;
  Json options;  ///< As Call::options.
  std::vector<Shape> shapes;
  std::vector<at::ScalarType> dtypes;
  uint64_t number = next_call_number();
};

}  // namespace strata::keras::detail
