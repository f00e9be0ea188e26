#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "strata/core/export.h"

/// Texts as tensors, which hold no strings: uint8 `[..., width]`, the UTF-8 bytes of each text
/// along the last dimension with zero bytes behind them. `padded_batch` makes the same of lines.
namespace strata::data {

/// Copies texts into a tensor `[texts, width]` on the CPU; the longest one has `width` bytes, and
/// empty ones have one.
STRATA_API at::Tensor text_tensor(std::span<const std::string> texts);

/// The texts of a tensor in the order of its memory, without the zero bytes behind them.
/// @throws Error kInvalidArgument: a tensor that is not uint8, or has no dimension.
STRATA_API std::vector<std::string> texts_of(const at::Tensor& tensor);

}  // namespace strata::data
