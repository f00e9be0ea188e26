#include <ATen/TensorOperators.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/nanquantile.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/quantile.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/trapezoid.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <limits>

#include "keras/ops/arguments.h"

namespace strata::keras::detail {
namespace {

using C = const OperationCall&;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

at::Tensor floats(C call) { return floating(call.tensor(0, "x")); }
bool keeps(C call) { return call.flag("keepdims"); }

/// Without the values that are NaN.
at::Tensor nan_mean(C call) {
  const at::Tensor x = floats(call);
  return x.nanmean(positive_axes(call, x.dim()), keeps(call));
}
at::Tensor nan_variance(C call) {
  const at::Tensor x = floats(call), there = x.isnan().logical_not();
  const std::vector<int64_t> axes = positive_axes(call, x.dim());
  const at::Tensor count = there.sum(axes, keeps(call)).to(x.scalar_type());
  const at::Tensor from_mean = at::where(there, x - x.nanmean(axes, true), 0.0);
  return from_mean.square().sum(axes, keeps(call)) / count;
}

/// @param sign  1: the largest value; -1: the smallest.
at::Tensor nan_extreme(C call, int sign) {
  const at::Tensor x = floats(call), none = x.isnan();
  const std::vector<int64_t> axes = positive_axes(call, x.dim());
  const at::Tensor filled = at::where(none, -sign * kInfinity, x);
  const at::Tensor y = sign > 0 ? filled.amax(axes, keeps(call)) : filled.amin(axes, keeps(call));
  const at::Tensor any = none.logical_not().sum(axes, keeps(call)) > 0;
  return at::where(any, y, kNan).to(x.scalar_type());
}
at::Tensor nan_place(C call, int sign) {
  at::Tensor x = floats(call);
  const bool flat = call.option("axis").is_null();
  if (flat) x = x.flatten();
  const int64_t axis = flat ? 0 : call.integer("axis", 0);
  const at::Tensor filled = at::where(x.isnan(), -sign * kInfinity, x);
  const at::Tensor y =
      sign > 0 ? filled.argmax(axis, keeps(call)) : filled.argmin(axis, keeps(call));
  return at::where(x.isnan().all(axis, keeps(call)), -1, y).to(at::kInt);
}

at::Tensor product(at::Tensor x, std::vector<int64_t> axes, bool keepdims) {
  std::ranges::sort(axes, std::greater<>());
  for (const int64_t axis : axes) x = x.prod(axis, keepdims, x.scalar_type());
  return x;
}

/// Along `axis`, or along all values in a row.
at::Tensor running(C call, const at::Tensor& x, bool of_products) {
  const bool flat = call.option("axis").is_null();
  const at::Tensor from = flat ? x.flatten() : x;
  const int64_t axis = flat ? 0 : call.integer("axis", 0);
  const at::ScalarType dtype = dtype_option(call, x.scalar_type());
  return of_products ? from.cumprod(axis, dtype) : from.cumsum(axis, dtype);
}

/// The axes in `axis` as the last one.
at::Tensor joined(C call, const at::Tensor& x, std::vector<int64_t>& axes) {
  axes = positive_axes(call, x.dim());
  std::vector<int64_t> rest;
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (std::ranges::find(axes, d) == axes.end()) rest.push_back(d);
  }
  std::vector<int64_t> order = rest;
  order.insert(order.end(), axes.begin(), axes.end());
  return x.permute(order).flatten(static_cast<int64_t>(rest.size()));
}

at::Tensor quantile_of(C call, const at::Tensor& q, bool nan) {
  const at::Tensor x = floats(call);
  std::vector<int64_t> axes;
  const at::Tensor flat = joined(call, x, axes);
  const std::string method = call.text("method", "linear");
  const at::Tensor at = q.to(x.options());
  const auto between = [&](const char* which) {
    return nan ? at::nanquantile(flat, at, -1, false, which)
               : at::quantile(flat, at, -1, false, which);
  };
  at::Tensor y;
  if (method == "nearest") {
    // Of two that are as near, the lower one; libtorch takes the one at an even place.
    const at::Tensor counted = nan ? flat.isnan().logical_not() : at::ones_like(flat, at::kBool);
    const at::Tensor last = counted.sum(-1) - 1;
    std::vector<int64_t> shape = at.sizes().vec();
    shape.resize(shape.size() + static_cast<size_t>(last.dim()), 1);
    const at::Tensor place = at.reshape(shape) * last;
    y = at::where(place.frac() <= 0.5, between("lower"), between("higher"));
  } else {
    y = between(method.c_str());
  }
  if (keeps(call)) {
    std::ranges::sort(axes);
    for (const int64_t axis : axes) y = y.unsqueeze(axis + q.dim());
  }
  return y;
}

at::Tensor quantile_row(C call, bool nan, double whole) {
  const Json& json = call.argument(1, "q");
  if (json.is_array()) {
    std::vector<double> q;
    from_config(json, q);
    return quantile_of(call, at::tensor(q, at::kDouble) / whole, nan);
  }
  return quantile_of(call, floating(call.tensor(1, "q")) / whole, nan);
}

at::Tensor average(C call) {
  const at::Tensor x = floats(call);
  const std::vector<int64_t> axes = positive_axes(call, x.dim());
  if (!call.has(1, "weights")) return x.mean(axes);
  at::Tensor weights = call.tensor(1, "weights").to(x.scalar_type());
  if (weights.dim() == 1 && x.dim() > 1) {
    std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
    shape[static_cast<size_t>(axes.at(0))] = weights.size(0);
    weights = weights.reshape(shape);
  }
  return (x * weights).sum(axes) / weights.expand_as(x).sum(axes);
}

Tensors moments(C call) {
  const at::Tensor x = call.tensor(0, "x");
  const at::Tensor wide = x.element_size() < 4 ? x.to(at::kFloat) : floating(x);
  const std::vector<int64_t> axes = positive_axes(call, x.dim(), "axes");
  return {wide.mean(axes, keeps(call)).to(floating(x).scalar_type()),
          wide.var(axes, /*unbiased=*/false, keeps(call)).to(floating(x).scalar_type())};
}

at::Tensor trapezoid(C call) {
  const at::Tensor y = floating(call.tensor(0, "y"));
  const Json& x = call.option("x");
  const int64_t axis = call.integer("axis", -1);
  if (x.is_null()) return at::trapezoid(y, call.number("dx", 1), axis);
  std::vector<double> places;
  from_config(x, places);
  return at::trapezoid(y, at::tensor(places, at::kDouble).to(y.options()), axis);
}

const OperationRow kStatisticsRows[] = {
    one("numpy", "Average", average, "axis"),
    one(
        "numpy", "CountNonzero",
        [](C call) {
          const at::Tensor x = call.tensor(0, "x");
          return (x != 0).sum(positive_axes(call, x.dim())).to(at::kInt);
        },
        "axis"),
    one(
        "numpy", "Cumprod", [](C call) { return running(call, call.tensor(0, "x"), true); },
        "axis dtype"),
    one(
        "numpy", "Median",
        [](C call) { return quantile_of(call, at::scalar_tensor(0.5, at::kDouble), false); },
        "axis keepdims"),
    one(
        "numpy", "Quantile", [](C call) { return quantile_row(call, false, 1); },
        "axis method keepdims"),
    one(
        "numpy", "Percentile", [](C call) { return quantile_row(call, false, 100); },
        "axis method keepdims"),
    one(
        "numpy", "Ptp",
        [](C call) {
          const at::Tensor x = call.tensor(0, "x");
          const std::vector<int64_t> axes = positive_axes(call, x.dim());
          return x.amax(axes, keeps(call)) - x.amin(axes, keeps(call));
        },
        "axis keepdims"),
    one(
        "numpy", "Nanargmax", [](C call) { return nan_place(call, 1); }, "axis keepdims"),
    one(
        "numpy", "Nanargmin", [](C call) { return nan_place(call, -1); }, "axis keepdims"),
    one(
        "numpy", "Nanmax", [](C call) { return nan_extreme(call, 1); }, "axis keepdims"),
    one(
        "numpy", "Nanmin", [](C call) { return nan_extreme(call, -1); }, "axis keepdims"),
    one("numpy", "Nanmean", nan_mean, "axis keepdims"),
    one("numpy", "Nanvar", nan_variance, "axis keepdims"),
    one(
        "numpy", "Nanstd", [](C call) { return nan_variance(call).sqrt(); }, "axis keepdims"),
    one(
        "numpy", "Nanmedian",
        [](C call) { return quantile_of(call, at::scalar_tensor(0.5, at::kDouble), true); },
        "axis keepdims"),
    one(
        "numpy", "Nanquantile", [](C call) { return quantile_row(call, true, 1); },
        "axis method keepdims"),
    one(
        "numpy", "Nanpercentile", [](C call) { return quantile_row(call, true, 100); },
        "axis method keepdims"),
    one(
        "numpy", "Nansum",
        [](C call) {
          const at::Tensor x = call.tensor(0, "x");
          const at::Tensor filled = at::where(x.isnan(), 0, x).to(x.scalar_type());
          return filled.sum(positive_axes(call, x.dim()), keeps(call), x.scalar_type());
        },
        "axis keepdims"),
    one(
        "numpy", "Nanprod",
        [](C call) {
          const at::Tensor x = call.tensor(0, "x");
          const at::Tensor filled = at::where(x.isnan(), 1, x).to(x.scalar_type());
          return product(filled, positive_axes(call, x.dim()), keeps(call));
        },
        "axis keepdims"),
    one(
        "numpy", "Nancumsum",
        [](C call) {
          const at::Tensor x = call.tensor(0, "x");
          return running(call, at::where(x.isnan(), 0, x).to(x.scalar_type()), false);
        },
        "axis dtype"),
    one(
        "numpy", "Nancumprod",
        [](C call) {
          const at::Tensor x = call.tensor(0, "x");
          return running(call, at::where(x.isnan(), 1, x).to(x.scalar_type()), true);
        },
        "axis dtype"),
    several("nn", "Moments", moments, "axes keepdims synchronized"),
    one("numpy", "Trapezoid", trapezoid, "x dx axis"),
    one(
        "numpy", "Diff",
        [](C call) {
          return at::diff(call.tensor(0, "a"), call.integer("n", 1), call.integer("axis", -1));
        },
        "n axis"),
};

}  // namespace

std::span<const OperationRow> statistics_operations() { return kStatisticsRows; }

}  // namespace strata::keras::detail
