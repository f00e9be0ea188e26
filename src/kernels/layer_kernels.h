#pragma once

#include <cstdint>

#include "core/cpu_isa.h"

namespace strata::kernels {

/// Rows of values, [count, width], to be added to `sums`, [*, width], where `rows` says.
struct RowSums {
  const float* values;
  const int64_t* rows;
  int64_t count;
  int64_t left_out;  ///< Values of this row are not added.
  int64_t width;
  float* sums;
};

/// What dense layers and embeddings need besides products. Arrays do not overlap.
struct LayerKernels {
  /// out[i] = in[i] < 0 ? 0 : in[i]; a NaN stays one.
  void (*relu)(const float* in, int64_t size, float* out);
  /// out[i] = value[i] <= threshold ? 0 : gradient[i].
  void (*threshold_backward)(const float* gradient, const float* value, float threshold,
                             int64_t size, float* out);
  /// The same over what there is.
  void (*relu_in_place)(float* x, int64_t size);
  void (*threshold_in_place)(float* gradient, const float* value, float threshold, int64_t size);
  /// The same of bfloat16, as bits; the threshold is 0. `out` may be `in` or `gradient`.
  void (*relu_bf16)(const uint16_t* in, int64_t size, uint16_t* out);
  void (*threshold_bf16)(const uint16_t* gradient, const uint16_t* value, int64_t size,
                         uint16_t* out);
  /// out[c] = sum over r of in[r * stride + c], added in an order that `rows` alone decides.
  void (*column_sums)(const float* in, int64_t rows, int64_t columns, int64_t stride, float* out);
  void (*column_sums_bf16)(const uint16_t* in, int64_t rows, int64_t columns, int64_t stride,
                           float* out);
  /// sums[r] = the sum of the values whose row is r, in their order, for r in [first, last) and
  /// columns [begin, end).
  void (*add_rows)(const RowSums& arrays, int64_t first, int64_t last, int64_t begin, int64_t end);
};

const LayerKernels& layer_kernels();  // the best for this processor; in dense_layer.cc
const LayerKernels& layer_kernels_baseline();
const LayerKernels& layer_kernels_avx2();
const LayerKernels& layer_kernels_avx512();

}  // namespace strata::kernels
