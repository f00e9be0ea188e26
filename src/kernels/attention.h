#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace strata::kernels {

/// Which keys a query sees: those that all of these let it see.
struct AttentionMask {
  /// Broadcast to `[batch, heads, queries, keys]`. Boolean: false hides. Else added to the scores,
  /// and -infinity hides. No gradient flows into it.
  std::optional<at::Tensor> scores = {};
  std::optional<at::Tensor> queries = {};  ///< Boolean `[batch, queries]`: false sees nothing.
  std::optional<at::Tensor> keys = {};     ///< Boolean `[batch, keys]`: false is hidden from all.
  bool causal = false;                     ///< Query i sees keys 0 to i.
  int64_t window = 0;                      ///< Query i sees keys less than this from i; 0: all.

  bool empty() const { return !scores && !queries && !keys && !causal && window == 0; }
};

/// What a query that sees nothing gives: zeros, as libtorch, or the mean of all values, as Keras.
enum class UnseeingQueries { kZero, kMean };

/// softmax(query key^T * scale + mask) value in one tiled pass (Dao et al. 2022): no matrix of
/// scores is in memory, forward or backward, and tiles in which the mask hides all are left out.
/// Differentiable, twice too.
/// @param query  `[batch, heads, queries, depth]`, any strides but 1 in the last dimension.
/// @param key    `[batch, key heads, keys, depth]`; `heads` is a multiple of `key heads`.
/// @param value  `[batch, key heads, keys, value depth]`.
/// @return `[batch, heads, queries, value depth]`, contiguous as `[batch, queries, heads, ...]`.
///         Nothing where the kernels do not apply: other than float or bfloat16 on the CPU, empty,
///         other masks, or libtorch's products chosen. Of bfloat16 it is computed in float and
///         rounded once.
/// Bits depend on shapes, masks and values alone.
std::optional<at::Tensor> attention(const at::Tensor& query, const at::Tensor& key,
                                    const at::Tensor& value, const AttentionMask& mask,
                                    double scale, UnseeingQueries unseeing);

}  // namespace strata::kernels
