#pragma once

#include <cstdint>

#include "core/cpu_isa.h"
#include "kernels/matmul_kernels.h"

namespace strata::kernels {

/// d[rows, columns] = p[rows, k] q[k, columns], vectors along the columns. Nothing is packed: tiles
/// of attention come out of one product as the next one reads them.
struct PanelProduct {
  int64_t rows;
  int64_t columns;
  int64_t k;
  MatrixView p;    ///< One of its strides is 1.
  const float* q;  ///< Aligned to 64 bytes; rows are padded to a multiple of 16.
  int64_t q_stride;
  float* d;
  int64_t d_stride;
  bool add = false;               ///< To what d holds.
  const float* factor = nullptr;  ///< With `add`: by which row d is multiplied first; or null.
};

/// Each element is one chain of fused multiply-adds in the order of k: the same bits on every
/// processor.
struct AttentionProducts {
  void (*multiply)(const PanelProduct& product);
  /// out[r, c] = in[r, c] * factor. Rows of `out` are padded with zeros to out_stride, a multiple
  /// of 16.
  void (*copy_rows)(const float* in, int64_t in_stride, int64_t rows, int64_t columns, float factor,
                    float* out, int64_t out_stride);
  /// out[c, r] = in[r, c], padded likewise.
  void (*transpose_padded)(const float* in, int64_t in_stride, int64_t rows, int64_t columns,
                           float* out, int64_t out_stride);
  /// Rows of bfloat16, as bits, to float, and back, rounded.
  void (*widen_rows)(const uint16_t* in, int64_t in_stride, int64_t rows, int64_t columns,
                     float* out, int64_t out_stride);
  void (*round_rows)(const float* in, int64_t in_stride, int64_t rows, int64_t columns,
                     uint16_t* out, int64_t out_stride);
};

const AttentionProducts& attention_products();  // the best for this processor; in attention_cpu.cc
const AttentionProducts& attention_products_baseline();
const AttentionProducts& attention_products_avx2();
const AttentionProducts& attention_products_avx512();

}  // namespace strata::kernels
