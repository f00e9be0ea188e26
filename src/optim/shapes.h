#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "strata/core/error.h"

namespace strata::detail {

/// Keras's squeeze_or_expand_to_same_rank: a last axis of length 1 that only one of the two has is
/// added to the other (if that is a vector) or dropped.
inline void match_ranks(at::Tensor& a, at::Tensor& b) {
  for (int turn = 0; turn < 2; ++turn) {
    if (a.dim() == b.dim() + 1 && a.size(-1) == 1) {
      if (b.dim() == 1) {
        b = b.unsqueeze(-1);
      } else {
        a = a.squeeze(-1);
      }
    }
    std::swap(a, b);
  }
}

/// match_ranks, then equal shapes or kInvalidArgument.
inline void match_shapes(const char* where, const char* function, at::Tensor& y_true,
                         at::Tensor& y_pred) {
  match_ranks(y_true, y_pred);
  STRATA_CHECK(y_true.sizes() == y_pred.sizes(), kInvalidArgument, "[", where, "] ", function,
               ": got y_true of shape ", y_true.sizes(), " and y_pred of shape ", y_pred.sizes(),
               "; expected equal shapes");
}

/// `weight` in a shape that multiplies `values`: one for each example (`[batch]`, `[batch, 1]`),
/// each value, or anything between, with axes of length 1 added behind. A vector of values may
/// become `[batch, 1]`, as in Keras.
inline void match_weight(const char* where, at::Tensor& values, at::Tensor& weight) {
  const at::Tensor given_values = values, given_weight = weight;
  match_ranks(values, weight);
  bool fits = weight.dim() <= values.dim() || values.dim() == 0;
  for (int64_t d = 0; fits && values.dim() > 0 && d < weight.dim(); ++d) {
    fits = weight.size(d) == values.size(d) || (d > 0 && weight.size(d) == 1);
  }
  STRATA_CHECK(fits, kInvalidArgument, where, ": got sample_weight of shape ", given_weight.sizes(),
               " for values of shape ", given_values.sizes(),
               "; expected one weight for each example or each value");
  while (weight.dim() > 0 && weight.dim() < values.dim()) weight = weight.unsqueeze(-1);
}

}  // namespace strata::detail
