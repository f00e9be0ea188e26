#pragma once

#include <cstdint>

#include "core/cpu_isa.h"

namespace strata::kernels {

/// Contiguous `[images, channels, plane]`.
struct BatchNormShape {
  int64_t images;
  int64_t channels;
  int64_t plane;
};

/// For each channel c: y = x * scale[c] + shift[c] (+ beside), then relu if asked for.
struct BatchNormForward {
  const float* x;
  const float* beside;  ///< Or null.
  const float* weight;
  const float* bias;
  double epsilon;
  bool relu;
  float* y;
  // Of each channel:
  float* mean;
  float* variance;  ///< Divided by the count.
  float* inverse;   ///< 1 / sqrt(variance + epsilon)
};

struct BatchNormBackward {
  const float* gradient;  ///< Of y.
  const float* x;
  const float* y;  ///< What relu gave; null: there was none.
  const float* weight;
  const float* mean;
  const float* inverse;
  float* dx;       ///< Or null. May be `gradient`.
  float* dbeside;  ///< Or null: the gradient that passed relu. Not `gradient`, but `dx` may be.
  float* dweight;
  float* dbias;
};

/// Batch normalization of planes, a channel at a time: what its second and third pass read is in
/// the cache. A channel's sums are added in an order that the shape alone decides.
struct BatchNormKernels {
  void (*forward)(const BatchNormShape& shape, const BatchNormForward& arrays, int64_t begin,
                  int64_t end);  ///< Channels [begin, end).
  void (*backward)(const BatchNormShape& shape, const BatchNormBackward& arrays, int64_t begin,
                   int64_t end);
  /// sums[r] += the sum of row r of in[rows, columns].
  void (*add_row_sums)(const float* in, int64_t rows, int64_t columns, double* sums);
};

const BatchNormKernels& batch_norm_kernels();  // the best for this processor; in batch_norm.cc
const BatchNormKernels& batch_norm_kernels_baseline();
const BatchNormKernels& batch_norm_kernels_avx2();
const BatchNormKernels& batch_norm_kernels_avx512();

}  // namespace strata::kernels
