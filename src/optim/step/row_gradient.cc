#include "optim/step/row_gradient.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "strata/core/error.h"

namespace strata::optimizers {
namespace {

/// A row of one of the gradients: `position` counts them all, in replica order.
struct SourceRow {
  int64_t row;
  int64_t position;
};

/// Where each source row is added: the row of the result.
struct Places {
  std::vector<SourceRow> sorted;
  std::vector<int64_t> place;  ///< By position.
};

/// Fills in the result's rows.
Places place_rows(const std::vector<at::Tensor>& row_parts, RowGradient& result) {
  Places places;
  for (const at::Tensor& part : row_parts) {
    const int64_t* const rows = part.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < part.numel(); ++i) {
      places.sorted.push_back({rows[i], static_cast<int64_t>(places.sorted.size())});
    }
  }
  std::ranges::sort(places.sorted, {},
                    [](const SourceRow& each) { return std::pair(each.row, each.position); });
  places.place.resize(places.sorted.size());
  for (const auto& [row, position] : places.sorted) {
    if (result.rows.empty() || result.rows.back() != row) result.rows.push_back(row);
    places.place[static_cast<size_t>(position)] = static_cast<int64_t>(result.rows.size()) - 1;
  }
  return places;
}

/// Equal rows in replica order, each row of the result at once while it is in the cache.
template <typename T>
void add_rows(const std::vector<at::Tensor>& value_parts, const Places& places,
              RowGradient& result) {
  std::vector<const T*> sources;
  for (const at::Tensor& part : value_parts) {
    const T* const data = part.const_data_ptr<T>();
    for (int64_t i = 0; i < part.size(0); ++i) sources.push_back(data + i * result.row_size);
  }
  T* const sums = result.values.mutable_data_ptr<T>();
  int64_t last = -1;
  for (const SourceRow& each : places.sorted) {
    const int64_t place = places.place[static_cast<size_t>(each.position)];
    const T* __restrict const source = sources[static_cast<size_t>(each.position)];
    T* __restrict const sum = sums + place * result.row_size;
    if (place != last) {
      for (int64_t i = 0; i < result.row_size; ++i) sum[i] = source[i] + T(0);  // of -0: 0
    } else {
      for (int64_t i = 0; i < result.row_size; ++i) sum[i] += source[i];
    }
    last = place;
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
  for (at::Tensor& part : row_parts) part = part.contiguous();
  for (at::Tensor& part : value_parts) part = part.contiguous();

  RowGradient result;
  const Places places = place_rows(row_parts, result);
  const at::Tensor& first = value_parts[0];
  std::vector<int64_t> shape = first.sizes().vec();
  shape[0] = static_cast<int64_t>(result.rows.size());
  result.row_size = 1;  // not numel / rows: there may be none
  for (size_t i = 1; i < shape.size(); ++i) result.row_size *= shape[i];
  // By hand, in replica order: index_add_ does not promise an order.
  if (first.is_cpu() && (first.scalar_type() == at::kFloat || first.scalar_type() == at::kDouble)) {
    result.values = at::empty(shape, first.options());
    if (first.scalar_type() == at::kFloat) {
      add_rows<float>(value_parts, places, result);
    } else {
      add_rows<double>(value_parts, places, result);
    }
    return result;
  }
  const at::Tensor values = at::cat(value_parts);
  result.values = at::zeros(shape, values.options());
  if (values.is_cuda()) {
    // Sorts by target and adds in that order, whatever threads run first.
    const at::Tensor target = at::tensor(places.place, at::kLong).to(values.device());
    result.values.index_put_({target}, values, /*accumulate=*/true);
  } else {
    for (size_t i = 0; i < places.place.size(); ++i) {
      result.values[places.place[i]].add_(values[static_cast<int64_t>(i)]);
    }
  }
  return result;
}

}  // namespace strata::optimizers
