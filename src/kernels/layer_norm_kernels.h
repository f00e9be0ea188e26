#pragma once

#include <cstdint>

#include "core/cpu_isa.h"

namespace strata::kernels {

/// For each row r of [rows, columns]: y = (x - mean[r]) * inverse[r] * weight + bias.
struct LayerNormForward {
  const float* x;
  const float* beside;  ///< Added to x first; null: nothing is.
  const float* weight;  ///< [columns]
  const float* bias;    ///< [columns]; null: the mean is not subtracted either (RMS normalization).
  double epsilon;
  float* sum;  ///< x + beside, where there is one.
  float* y;
  // Of each row:
  float* mean;     ///< Null where it is not subtracted.
  float* inverse;  ///< 1 / sqrt(variance + epsilon)
};

struct LayerNormBackward {
  const float* gradient;  ///< Of y.
  const float* of_sum;    ///< The gradient of x by another way, added to dx; or null.
  const float* x;
  const float* weight;
  const float* mean;  ///< Null where it was not subtracted.
  const float* inverse;
  float* dx;  ///< Or null. May be `gradient` or `of_sum`.
};

/// Normalization of rows, a row at a time: what its second and third pass read is in the cache. A
/// row's sums are added in an order that `columns` alone decides.
struct LayerNormKernels {
  /// Rows [begin, end).
  void (*forward)(int64_t columns, const LayerNormForward& arrays, int64_t begin, int64_t end);
  /// The same; dweight and dbias, [columns], are what these rows contribute, added row by row
  /// (dbias may be null where there was no mean).
  void (*backward)(int64_t columns, const LayerNormBackward& arrays, int64_t begin, int64_t end,
                   float* dweight, float* dbias);
};

const LayerNormKernels& layer_norm_kernels();  // the best for this processor; in layer_norm.cc
const LayerNormKernels& layer_norm_kernels_baseline();
const LayerNormKernels& layer_norm_kernels_avx2();
const LayerNormKernels& layer_norm_kernels_avx512();

}  // namespace strata::kernels
