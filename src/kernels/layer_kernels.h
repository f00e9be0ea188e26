#pragma once

#include <cstdint>

#include "core/cpu_isa.h"

namespace strata::kernels {

/// What a dense layer needs besides products. Arrays do not overlap.
struct LayerKernels {
  /// out[i] = in[i] < 0 ? 0 : in[i]; a NaN stays one.
  void (*relu)(const float* in, int64_t size, float* out);
  /// out[i] = value[i] <= threshold ? 0 : gradient[i].
  void (*threshold_backward)(const float* gradient, const float* value, float threshold,
                             int64_t size, float* out);
  /// The same over what there is.
  void (*relu_in_place)(float* x, int64_t size);
  void (*threshold_in_place)(float* gradient, const float* value, float threshold, int64_t size);
  /// out[c] = sum over r of in[r * stride + c], added in an order that `rows` alone decides.
  void (*column_sums)(const float* in, int64_t rows, int64_t columns, int64_t stride, float* out);
};

const LayerKernels& layer_kernels();  // the best for this processor; in dense_layer.cc
const LayerKernels& layer_kernels_baseline();
const LayerKernels& layer_kernels_avx2();
const LayerKernels& layer_kernels_avx512();

}  // namespace strata::kernels
