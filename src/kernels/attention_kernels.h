#pragma once

#include <cstdint>

#include "core/cpu_isa.h"

namespace strata::kernels {

/// A tile of scores: products of some keys, a row each, with some queries, a lane each. So what a
/// softmax adds up lies in one lane.
struct ScoreTile {
  float* scores;  ///< Scaled. Rows lie `lanes` apart.
  int64_t lanes;  ///< 16, 32 or 64; those behind the last query hold anything.
  int64_t keys;
  const float* bias;  ///< Added; -infinity hides, whatever the score. Null: nothing.
  /// Each lane sees keys [begin, end) alone; null: all.
  const int32_t* begin;
  const int32_t* end;
};

/// Of each lane, over the tiles so far.
struct RunningSoftmax {
  float* largest;  ///< At first -infinity.
  float* sum;      ///< Of exp(score - largest). At first 0.
  float* factor;   ///< Out: by what the last tile multiplies sums that came before it.
};

/// Attention's mask of a tile; what is null hides nothing.
struct TileMask {
  const uint8_t* seen;  ///< 0 hides.
  const float* added;
  const uint8_t* keys;  ///< 0 hides a key from all rows.
  int64_t row_stride;   ///< Of `seen` or `added`.
  int64_t column_stride;
  int64_t keys_stride;
};

enum class Hides { kNothing, kSome, kAll };

/// What attention computes beside products, tile by tile; Dao et al. 2022, Milakov & Gimelshein
/// 2018. Sums over keys are in their order, those of row_dots 16 partial sums, added pairwise: the
/// same bits on every processor.
struct AttentionKernels {
  /// scores := exp(score - the lane's largest so far); 0 where hidden. Updates `running`.
  void (*softmax)(const ScoreTile& tile, const RunningSoftmax& running);
  /// scores := weights, exp(score - logsumexp). gradients (laid out as scores), of the weights, :=
  /// those of the scores: weight * (gradient - delta). `delta` is the sum of weight * gradient over
  /// a lane; null: the tile has all of it.
  void (*softmax_backward)(const ScoreTile& tile, const float* logsumexp, const float* delta,
                           float* gradients);
  /// bias[row, column] := the mask as numbers to add, one row where its row_stride is 0.
  Hides (*fill_bias)(const TileMask& mask, int64_t rows, int64_t columns, float* bias,
                     int64_t bias_stride);
  /// out[r] := sum over c of a[r, c] b[r, c].
  void (*row_dots)(const float* a, int64_t a_stride, const float* b, int64_t b_stride, int64_t rows,
                   int64_t columns, float* out);
  /// Divides rows of x by their sums. A row that saw nothing becomes `hidden` (null: zeros), its
  /// logsumexp +infinity.
  void (*finish)(float* x, int64_t stride, int64_t rows, int64_t columns,
                 const RunningSoftmax& running, const float* hidden, float* logsumexp);
  /// x[r, :] += row * factor
  void (*add_to_rows)(float* x, int64_t stride, int64_t rows, int64_t columns, const float* row,
                      float factor);
};

const AttentionKernels& attention_kernels();  // the best for this processor; in attention_cpu.cc
const AttentionKernels& attention_kernels_baseline();
const AttentionKernels& attention_kernels_avx2();
const AttentionKernels& attention_kernels_avx512();

}  // namespace strata::kernels
