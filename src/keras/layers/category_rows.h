#pragma once

#include <ATen/core/Tensor.h>

#include "strata/keras/layers/categories.h"

namespace strata::layers {

/// Rows of `depth` for categories `[...]`; those outside 0 ... depth - 1 are left out.
/// @param weights  How much each counts; undefined: one.
at::Tensor category_rows(at::Tensor categories, const CategoryMode& mode, int64_t depth,
                         at::ScalarType dtype, const at::Tensor& weights = {});

}  // namespace strata::layers
