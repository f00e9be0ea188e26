#include "optim/step/row_gradient.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "kernels/find_operator.h"
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
  std::vector<int64_t> rows;   ///< Of the result.
};

Places place_rows(at::TensorList row_parts) {
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
    if (places.rows.empty() || places.rows.back() != row) places.rows.push_back(row);
    places.place[static_cast<size_t>(position)] = static_cast<int64_t>(places.rows.size()) - 1;
  }
  return places;
}

/// Equal rows in replica order, each row of the result at once while it is in the cache.
template <typename T>
void add_rows(at::TensorList value_parts, const Places& places, int64_t row_size,
              const at::Tensor& values) {
  std::vector<const T*> sources;
  for (const at::Tensor& part : value_parts) {
    const T* const data = part.const_data_ptr<T>();
    for (int64_t i = 0; i < part.size(0); ++i) sources.push_back(data + i * row_size);
  }
  T* const sums = values.mutable_data_ptr<T>();
  int64_t last = -1;
  for (const SourceRow& each : places.sorted) {
    const int64_t place = places.place[static_cast<size_t>(each.position)];
    const T* __restrict const source = sources[static_cast<size_t>(each.position)];
    T* __restrict const sum = sums + place * row_size;
    if (place != last) {
      for (int64_t i = 0; i < row_size; ++i) sum[i] = source[i] + T(0);  // of -0: 0
    } else {
      for (int64_t i = 0; i < row_size; ++i) sum[i] += source[i];
    }
    last = place;
  }
}

using RowsAndValues = std::tuple<at::Tensor, at::Tensor>;

std::vector<int64_t> shape_of_sums(at::TensorList value_parts, int64_t num_rows) {
  std::vector<int64_t> shape = value_parts[0].sizes().vec();
  shape[0] = num_rows;
  return shape;
}

/// The rows that there are, ascending, and the sums of their values, in the order of the parts:
/// index_add_ does not promise one.
RowsAndValues add_rows_by_libtorch(at::TensorList row_parts, at::TensorList value_parts) {
  const at::Tensor values = at::cat(value_parts);
  const auto [rows, places, counts] =
      at::_unique2(at::cat(row_parts), /*sorted=*/true, /*return_inverse=*/true);
  at::Tensor sums = at::zeros(shape_of_sums(value_parts, rows.numel()), values.options());
  if (values.is_cuda()) {
    // Sorts by target and adds in that order, whatever threads run first.
    sums.index_put_({places.to(values.device())}, values, /*accumulate=*/true);
  } else {
    for (int64_t i = 0; i < places.numel(); ++i) sums[places[i].item<int64_t>()].add_(values[i]);
  }
  return {rows, sums};
}

RowsAndValues add_rows_cpu(at::TensorList row_parts, at::TensorList value_parts) {
  const at::Tensor& first = value_parts[0];
  if (first.scalar_type() != at::kFloat && first.scalar_type() != at::kDouble) {
    return add_rows_by_libtorch(row_parts, value_parts);
  }
  const Places places = place_rows(row_parts);
  const auto num_rows = static_cast<int64_t>(places.rows.size());
  int64_t row_size = 1;  // not numel / rows: there may be none
  for (int64_t i = 1; i < first.dim(); ++i) row_size *= first.size(i);
  at::Tensor rows = at::empty({num_rows}, at::kLong);
  std::ranges::copy(places.rows, rows.mutable_data_ptr<int64_t>());
  at::Tensor values = at::empty(shape_of_sums(value_parts, num_rows), first.options());
  if (first.scalar_type() == at::kFloat) {
    add_rows<float>(value_parts, places, row_size, values);
  } else {
    add_rows<double>(value_parts, places, row_size, values);
  }
  return {rows, values};
}

TORCH_LIBRARY_FRAGMENT(strata, library) {
  library.def("add_rows(Tensor[] rows, Tensor[] values) -> (Tensor rows, Tensor values)");
}

TORCH_LIBRARY_IMPL(strata, CPU, library) { library.impl("add_rows", add_rows_cpu); }

TORCH_LIBRARY_IMPL(strata, CompositeExplicitAutograd, library) {
  library.impl("add_rows", add_rows_by_libtorch);
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

  const at::AutoDispatchBelowADInplaceOrView below;
  static const auto add = kernels::find_operator<decltype(add_rows_cpu)>("strata::add_rows");
  auto [rows, values] = add.call(row_parts, value_parts);
  return {.rows = std::move(rows), .values = std::move(values)};
}

}  // namespace strata::optimizers
