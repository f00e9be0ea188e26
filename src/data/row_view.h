#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace strata::data::detail {

/// at::select(tensor, 0, index) of a strided tensor that takes no part in autograd, in a fraction
/// of the time: per-element pipelines make millions of these. The view shares the tensor's version
/// counter.
at::Tensor row_view(const at::Tensor& tensor, int64_t index);

}  // namespace strata::data::detail
