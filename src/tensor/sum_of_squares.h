#pragma once

#include <cstdint>

namespace strata::tensor {

/// Norms are added block by block from a variable's start, so that they depend on nothing else.
inline constexpr int64_t kNormBlock = 4096;

/// Sum of squares in eight lanes, in an order that depends on the size alone.
template <typename T>
double sum_of_squares(const T* values, int64_t size) {
  double lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= size; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane) {
      const double value = static_cast<double>(values[i + lane]);
      lanes[lane] += value * value;
    }
  }
  for (int64_t lane = 0; i < size; ++i, ++lane) {
    lanes[lane] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

}  // namespace strata::tensor
