#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>

#include "kernels/attention.h"

namespace strata::kernels {

/// The operators strata::attention and strata::attention_backward, of these types:
/// logsumexp is that of a query's masked scores, `[batch, heads, queries]`; +infinity where it sees
/// nothing.
using AttentionForward = std::tuple<at::Tensor, at::Tensor>(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const std::optional<at::Tensor>& mask, const std::optional<at::Tensor>& query_mask,
    const std::optional<at::Tensor>& key_mask, bool causal, int64_t window, double scale,
    bool mean_of_unseen);
using AttentionBackward = std::tuple<at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor& gradient, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& output, const at::Tensor& logsumexp,
    const std::optional<at::Tensor>& mask, const std::optional<at::Tensor>& query_mask,
    const std::optional<at::Tensor>& key_mask, bool causal, int64_t window, double scale,
    bool mean_of_unseen);

/// In operators of ATen, for any type and device.
AttentionForward attention_of_aten;
AttentionBackward attention_backward_of_aten;

/// For tensors without values.
AttentionForward attention_shapes;
AttentionBackward attention_backward_shapes;

/// Calls through the dispatcher.
AttentionForward call_attention;
AttentionBackward call_attention_backward;

/// Whether the tiled kernels take these.
bool attention_kernels_apply(const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value, const AttentionMask& mask);

}  // namespace strata::kernels
