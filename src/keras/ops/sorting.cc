#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/isin.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <tuple>

#include "keras/ops/arguments.h"

namespace strata::keras::detail {
namespace {

using C = const OperationCall&;

/// Values and places in order; of equal values the first comes first.
std::tuple<at::Tensor, at::Tensor> in_order(const at::Tensor& x, int64_t axis, bool falling) {
  return x.sort(/*stable=*/true, axis, falling);
}

struct Axis {
  at::Tensor x;
  int64_t axis;
};
/// Without `axis`, all values in a row.
Axis along(C call) {
  const at::Tensor x = call.tensor(0, "x");
  const Json* axis = &call.option("axis");
  if (axis->is_null() && call.wrote("axis")) return {x.flatten(), 0};
  return {x, call.integer("axis", -1)};
}

/// The smallest kth + 1 in rising order, then the largest of the rest in falling order.
at::Tensor argpartition(C call) {
  const auto [x, given] = along(call);
  const int64_t axis = positive_axis(given, x.dim()), size = x.size(axis);
  const int64_t kth = positive_axis(call.integer("kth", 0), size);
  const at::Tensor low = std::get<1>(in_order(x, axis, false)).narrow(axis, 0, kth + 1);
  const at::Tensor high = std::get<1>(in_order(x, axis, true)).narrow(axis, 0, size - kth - 1);
  return at::cat({low, high}, axis).to(at::kInt);
}

Tensors top_k(C call) {
  const auto [values, places] = in_order(call.tensor(0, "x"), -1, true);
  const int64_t k = call.integer("k", 1);
  return {values.narrow(-1, 0, k), places.narrow(-1, 0, k).to(at::kInt)};
}

at::Tensor in_top_k(C call) {
  const at::Tensor targets = call.tensor(0, "targets").to(at::kLong);
  const at::Tensor predictions = call.tensor(1, "predictions");
  const at::Tensor chosen = predictions.gather(-1, targets.unsqueeze(-1));
  const at::Tensor number = at::where(chosen.isnan(), -INFINITY, chosen);
  return (predictions > number).sum(-1) < call.integer("k", 1);
}

at::Tensor searchsorted(C call) {
  return at::searchsorted(call.tensor(0, "sorted_sequence"), call.tensor(1, "values").contiguous(),
                          /*out_int32=*/true, call.text("side", "left") == "right");
}

at::Tensor digitize(C call) {
  const at::Tensor x = call.tensor(0, "x");
  const Json& json = call.argument(1, "bins");
  at::Tensor bins;
  if (json.is_array()) {
    std::vector<double> values;
    from_config(json, values);
    bins = at::tensor(values, at::kDouble).to(x.device());
  } else {
    bins = call.tensor(1, "bins");
  }
  return at::bucketize(x.contiguous(), bins.contiguous(), /*out_int32=*/true, /*right=*/true);
}

/// How many values are in each of equal parts of a range, and the parts' edges.
Tensors histogram(C call) {
  const at::Tensor x = floating(call.tensor(0, "x")).flatten();
  const int64_t bins = call.integer("bins", 10);
  at::Tensor low, high;
  if (const Json& range = call.option("range"); !range.is_null()) {
    low = at::scalar_tensor(range.as_array().at(0).as_double(), x.options());
    high = at::scalar_tensor(range.as_array().at(1).as_double(), x.options());
  } else {
    low = x.min();
    high = x.max();
  }
  const at::Tensor none = low == high;
  low = at::where(none, low - 0.5, low);
  high = at::where(none, high + 0.5, high);
  const at::Tensor edges = low + (high - low) * at::linspace(0, 1, bins + 1, x.options());
  const at::Tensor there = (x >= low).logical_and(x <= high);
  const at::Tensor place =
      (at::searchsorted(edges, x.contiguous(), false, true) - 1).clamp(0, bins - 1);
  const at::Tensor hot =
      (place.unsqueeze(-1) == at::arange(bins, place.options())).logical_and(there.unsqueeze(-1));
  return {hot.sum(0).to(x.scalar_type()), edges};
}

const OperationRow kSortingRows[] = {
    one("numpy", "Argpartition", argpartition, "kth axis"),
    one(
        "numpy", "Argsort",
        [](C call) {
          const auto [x, axis] = along(call);
          return std::get<1>(in_order(x, axis, false)).to(at::kInt);
        },
        "axis"),
    one(
        "numpy", "Sort",
        [](C call) {
          const auto [x, axis] = along(call);
          return std::get<0>(in_order(x, axis, false));
        },
        "axis"),
    several("math", "TopK", top_k, "k sorted"),
    one("math", "InTopK", in_top_k, "k"),
    one("numpy", "SearchSorted", searchsorted, "side"),
    one("numpy", "Digitize", digitize),
    several("numpy", "Histogram", histogram, "bins range"),
    one(
        "numpy", "IsIn",
        [](C call) {
          return at::isin(call.tensor(0, "x1"), call.tensor(1, "x2"), call.flag("assume_unique"),
                          call.flag("invert"));
        },
        "assume_unique invert"),
};

}  // namespace

std::span<const OperationRow> sorting_operations() { return kSortingRows; }

}  // namespace strata::keras::detail
