#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

#include "strata/core/export.h"

namespace strata::data {

/// Copies `bytes` into a uint8 tensor `[length]`: libtorch has no tensors of strings.
STRATA_API at::Tensor bytes_tensor(std::string_view bytes);

/// The bytes of `tensor` as text: a view, valid as long as the tensor's data.
/// @throws Error kInvalidArgument: not a contiguous uint8 tensor of one dimension on the CPU.
STRATA_API std::string_view bytes_of(const at::Tensor& tensor);

/// Copies the same to a string.
STRATA_API std::string to_string(const at::Tensor& tensor);

}  // namespace strata::data
