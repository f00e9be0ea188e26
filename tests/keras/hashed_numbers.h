#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstddef>
#include <cstdint>

namespace strata::test {

/// -1 to 1, from a hash of the index: `numbers` of the scripts in tests/golden, so that files of
/// golden values hold no weights.
inline double hashed_number(size_t which, int64_t index) {
  uint32_t h = static_cast<uint32_t>(index) + static_cast<uint32_t>(which) * 2654435769U;
  h = (h ^ h >> 16) * 0x7FEB352DU;
  h = (h ^ h >> 15) * 0x846CA68BU;
  h ^= h >> 16;
  return h / 2147483648.0 - 1;
}

/// A function of each of them. [shape], float64.
template <typename Function>
at::Tensor hashed_numbers(size_t which, at::IntArrayRef shape, const Function& function) {
  at::Tensor values = at::empty(shape, at::kDouble);
  double* data = values.data_ptr<double>();
  for (int64_t i = 0; i < values.numel(); ++i) data[i] = function(hashed_number(which, i));
  return values;
}

}  // namespace strata::test
