#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace strata::losses {

/// Whether softmax_cross_entropy can take these logits: dense float or double on the CPU.
bool has_fused_cross_entropy(const at::Tensor& logits);

/// -log softmax(logits)[label] for each row, with its gradient computed in the same pass: what is
/// kept for backward is softmax minus one-hot, so backward is one multiplication (in place if the
/// graph is released with it). Rows labelled `ignore_class` give 0 and no gradient.
///
/// @param logits  `[*, classes]`, has_fused_cross_entropy.
/// @param labels  `[*]`, int64, int32 or uint8.
/// @throws Error  kInvalidArgument: a label out of range, by name. Differentiating twice:
/// kUnimplemented.
at::Tensor softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                 std::optional<int64_t> ignore_class);

/// The error of a bad label. @param labels  `[rows, ...]`. @param index  Of it among all values.
[[noreturn]] void throw_bad_label(const at::Tensor& labels, int64_t index, int64_t classes);

}  // namespace strata::losses
