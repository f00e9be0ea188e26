#pragma once

#include <cstdint>

// Plain data only, as in matmul_kernels.h.

namespace strata::kernels {

/// Element (r, c) is at data[r * row_stride + c * column_stride].
template <typename Element>
struct ViewOf {
  const Element* data;
  int64_t row_stride;
  int64_t column_stride;
};

using MatrixView = ViewOf<float>;
/// Bits of bfloat16.
using Bf16View = ViewOf<uint16_t>;

}  // namespace strata::kernels
