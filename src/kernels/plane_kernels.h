#pragma once

#include <cstdint>

// Plain data only; see update_kernels.h.

namespace strata::kernels {

/// Between images as planes, a channel's values in one piece, and with channels last.
struct PlaneKernels {
  /// out[column][row] = in[row][column]; both in one piece.
  void (*transpose)(const float* in, int64_t rows, int64_t columns, float* out);
};

const PlaneKernels& plane_kernels();  // the best for this processor; in image_copy.cc
const PlaneKernels& plane_kernels_baseline();
const PlaneKernels& plane_kernels_avx2();
const PlaneKernels& plane_kernels_avx512();

}  // namespace strata::kernels
