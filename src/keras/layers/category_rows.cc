#include "keras/layers/category_rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

namespace strata::layers {

at::Tensor category_rows(at::Tensor categories, const CategoryMode& mode, int64_t depth,
                         at::ScalarType dtype, const at::Tensor& weights) {
  if (categories.dim() == 0) categories = categories.unsqueeze(-1);
  const bool one_hot = mode == CategoryMode::kOneHot;
  if (one_hot && categories.dim() > 1 && categories.size(-1) == 1)
    categories = categories.squeeze(-1);
  const at::Tensor index = categories.to(at::kLong).unsqueeze(-1);
  at::Tensor rows = (index == at::arange(depth, index.options())).to(dtype);
  if (one_hot) return rows;
  const int64_t axis = categories.dim() > 1 ? 1 : 0;
  if (mode == CategoryMode::kMultiHot) return rows.numel() == 0 ? rows.sum(axis) : rows.amax(axis);
  if (weights.defined()) rows = rows * weights.to(dtype).unsqueeze(-1);
  return rows.sum(axis);
}

}  // namespace strata::layers
