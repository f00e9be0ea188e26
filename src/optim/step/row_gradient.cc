#include "optim/step/row_gradient.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

#include "strata/core/error.h"

namespace strata::optimizers {
namespace {

template <typename T>
void add_rows(const at::Tensor& values, const std::vector<int64_t>& target, RowGradient& result) {
  const T* source = values.const_data_ptr<T>();
  T* sums = result.values.mutable_data_ptr<T>();
  for (const int64_t row : target) {
    T* sum = sums + row * result.row_size;
    for (int64_t i = 0; i < result.row_size; ++i) sum[i] += source[i];
    source += result.row_size;
  }
}

}  // namespace

RowGradient join_rows(const std::vector<at::Tensor>& gradients, const std::string& variable) {
  std::vector<at::Tensor> row_parts;
  std::vector<at::Tensor> value_parts;
  for (const at::Tensor& gradient : gradients) {
    if (!gradient.defined()) continue;
    STRATA_CHECK(gradient.sparse_dim() == 1, kInvalidArgument, "[optimizer] the gradient of '",
                 variable, "' has ", gradient.sparse_dim(),
                 " sparse dimensions; expected 1 (rows of an embedding)");
    row_parts.push_back(gradient._indices()[0].cpu());
    value_parts.push_back(gradient._values());
    if (value_parts.back().device() != value_parts[0].device()) {  // two cards
      value_parts.back() = value_parts.back().to(value_parts[0].device());
    }
  }
  const at::Tensor rows = at::cat(row_parts).contiguous();
  const at::Tensor values = at::cat(value_parts).contiguous();

  const int64_t* row = rows.const_data_ptr<int64_t>();
  std::vector<int64_t> order(static_cast<size_t>(rows.numel()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [row](int64_t a, int64_t b) { return row[a] < row[b]; });

  RowGradient result;
  std::vector<int64_t> target(order.size());  // position in the result of each row at hand
  for (const int64_t i : order) {
    if (result.rows.empty() || result.rows.back() != row[i]) result.rows.push_back(row[i]);
    target[static_cast<size_t>(i)] = static_cast<int64_t>(result.rows.size()) - 1;
  }
  std::vector<int64_t> shape = values.sizes().vec();
  shape[0] = static_cast<int64_t>(result.rows.size());
  result.values = at::zeros(shape, values.options());
  result.row_size = 1;  // not numel / rows: there may be none
  for (size_t i = 1; i < shape.size(); ++i) result.row_size *= shape[i];
  // By hand, in replica order: index_add_ does not promise an order.
  if (values.scalar_type() == at::kFloat && values.is_cpu()) {
    add_rows<float>(values, target, result);
  } else if (values.scalar_type() == at::kDouble && values.is_cpu()) {
    add_rows<double>(values, target, result);
  } else if (values.is_cuda()) {
    // Sorts by target and adds in that order, whatever threads run first.
    const at::Tensor places = at::tensor(target, at::kLong).to(values.device());
    result.values.index_put_({places}, values, /*accumulate=*/true);
  } else {
    for (size_t i = 0; i < target.size(); ++i) {
      result.values[target[i]].add_(values[static_cast<int64_t>(i)]);
    }
  }
  return result;
}

}  // namespace strata::optimizers
