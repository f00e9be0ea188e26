#pragma once

#include <cstdint>

#include "core/cpu_isa.h"

namespace strata::kernels {

/// For each row r of [rows, columns]: y = (x - mean[r]) * inverse[r] * weight + bias.
/// @param Element  float, or the bits of bfloat16: then sum and y are rounded, and all else is float.
template <typename Element>
struct LayerNormForward {
  const Element* x;
  const Element* beside;  ///< Added to x first; null: nothing is.
  const float* weight;    ///< [columns]
  const float* bias;  ///< [columns]; null: the mean is not subtracted either (RMS normalization).
  double epsilon;
  Element* sum;  ///< x + beside, where there is one.
  Element* y;
  // Of each row:
  float* mean;     ///< Null where it is not subtracted.
  float* inverse;  ///< 1 / sqrt(variance + epsilon)
};

template <typename Element>
struct LayerNormBackward {
  const Element* gradient;  ///< Of y.
  const Element* of_sum;    ///< The gradient of x by another way, added to dx; or null.
  const Element* x;
  const float* weight;
  const float* mean;  ///< Null where it was not subtracted.
  const float* inverse;
  Element* dx;  ///< Or null. May be `gradient` or `of_sum`.
};

/// Normalization of rows, a row at a time: what its second and third pass read is in the cache. A
/// row's sums are added in an order that `columns` alone decides.
template <typename Element>
struct LayerNormsOf {
  /// Rows [begin, end). @param room  Of bfloat16: kLayerNormRoom floats a column.
  void (*forward)(int64_t columns, const LayerNormForward<Element>& arrays, int64_t begin,
                  int64_t end, float* room);
  /// The same; dweight and dbias, [columns], are what these rows contribute, added row by row
  /// (dbias may be null where there was no mean).
  void (*backward)(int64_t columns, const LayerNormBackward<Element>& arrays, int64_t begin,
                   int64_t end, float* dweight, float* dbias, float* room);
};
inline constexpr int64_t kLayerNormRoom = 2;

struct LayerNormKernels {
  LayerNormsOf<float> of_float;
  LayerNormsOf<uint16_t> of_bf16;
};

const LayerNormKernels& layer_norm_kernels();  // the best for this processor; in layer_norm.cc
const LayerNormKernels& layer_norm_kernels_baseline();
const LayerNormKernels& layer_norm_kernels_avx2();
const LayerNormKernels& layer_norm_kernels_avx512();

}  // namespace strata::kernels
