#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

namespace strata::keras::detail {

/// Names the dimensions of `x` and puts them into another order: "b (h w) c -> b h w c", with
/// `lengths` of what cannot be derived. "..." stands for any number of dimensions.
/// @throws Error kInvalidArgument: a pattern that does not fit; says why.
/// Source: keras.ops.rearrange, as einops.rearrange.
at::Tensor rearrange(const at::Tensor& x, const std::string& pattern,
                     std::map<std::string, int64_t> lengths);

}  // namespace strata::keras::detail
