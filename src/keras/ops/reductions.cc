#include <ATen/ops/all.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/any.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/argmin.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/var.h>

#include <algorithm>
#include <numeric>

#include "keras/ops/arguments.h"

namespace strata::keras::detail {
namespace {

using C = const OperationCall&;
using Function = at::Tensor (*)(const at::Tensor& x, at::IntArrayRef axes, bool keepdims);

std::vector<int64_t> all_axes(const at::Tensor& x) {
  std::vector<int64_t> axes(static_cast<size_t>(x.dim()));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

/// Without `axis`, over everything.
template <Function function>
at::Tensor reduce(C call) {
  const at::Tensor x = call.tensor(0, "x");
  std::vector<int64_t> axes = call.axes();
  if (axes.empty()) axes = all_axes(x);
  return function(x, axes, call.flag("keepdims"));
}

at::Tensor mean(const at::Tensor& x, at::IntArrayRef axes, bool keepdims) {
  return at::mean(floating(x), axes, keepdims);
}
at::Tensor sum(const at::Tensor& x, at::IntArrayRef axes, bool keepdims) {
  const at::ScalarType dtype = x.scalar_type() == at::kBool ? at::kInt : x.scalar_type();
  return at::sum(x, axes, keepdims, dtype);
}
at::Tensor max(const at::Tensor& x, at::IntArrayRef axes, bool keepdims) {
  return at::amax(x, axes, keepdims);
}
at::Tensor min(const at::Tensor& x, at::IntArrayRef axes, bool keepdims) {
  return at::amin(x, axes, keepdims);
}
at::Tensor variance(const at::Tensor& x, at::IntArrayRef axes, bool keepdims) {
  return at::var(floating(x), axes, /*unbiased=*/false, keepdims);
}
at::Tensor deviation(const at::Tensor& x, at::IntArrayRef axes, bool keepdims) {
  return variance(x, axes, keepdims).sqrt();
}
at::Tensor log_sum_exp(const at::Tensor& x, at::IntArrayRef axes, bool keepdims) {
  return at::logsumexp(floating(x), axes, keepdims);
}

/// One axis after the other, the last first.
template <at::Tensor (*function)(const at::Tensor&, int64_t, bool)>
at::Tensor by_axis(const at::Tensor& x, at::IntArrayRef axes, bool keepdims) {
  std::vector<int64_t> order;
  for (const int64_t axis : axes) order.push_back(axis < 0 ? axis + x.dim() : axis);
  std::ranges::sort(order, std::greater<>());
  at::Tensor y = x;
  for (const int64_t axis : order) y = function(y, axis, keepdims);
  return y;
}
at::Tensor any(const at::Tensor& x, int64_t axis, bool keepdims) {
  return at::any(x, axis, keepdims);
}
at::Tensor all(const at::Tensor& x, int64_t axis, bool keepdims) {
  return at::all(x, axis, keepdims);
}
at::Tensor prod(const at::Tensor& x, int64_t axis, bool keepdims) {
  return at::prod(x, axis, keepdims, x.scalar_type());
}

/// With `initial`, which is one of the values.
template <Function function, at::Tensor (*with)(const at::Tensor&, const at::Tensor&)>
at::Tensor reduce_from(C call) {
  const at::Tensor y = reduce<function>(call);
  const Json& initial = call.option("initial");
  if (initial.is_null()) return y;
  return with(y, at::scalar_tensor(initial.as_double(), y.options()));
}

std::optional<int64_t> one_axis(C call) {
  const std::vector<int64_t> axes = call.axes();
  return axes.empty() ? std::nullopt : std::optional(axes[0]);
}

using enum OutputDtype;

template <Function function>
constexpr OperationRow row(std::string_view name, OutputDtype dtype,
                           std::string_view module = "numpy") {
  return {.name = name,
          .module = module,
          .dtype = dtype,
          .compute = reduce<function>,
          .options = "axis keepdims"};
}

const OperationRow kReductionRows[] = {
    row<mean>("Mean", kFloating),
    row<sum>("Sum", kPromoted),
    {.name = "Max",
     .module = "numpy",
     .dtype = kPromoted,
     .compute = reduce_from<max, at::maximum>,
     .options = "axis keepdims initial"},
    row<max>("Amax", kPromoted),
    {.name = "Min",
     .module = "numpy",
     .dtype = kPromoted,
     .compute = reduce_from<min, at::minimum>,
     .options = "axis keepdims initial"},
    row<min>("Amin", kPromoted),
    row<variance>("Var", kFloating),
    row<deviation>("Std", kFloating),
    row<log_sum_exp>("Logsumexp", kFloating, "math"),
    row<by_axis<any>>("Any", kBool),
    row<by_axis<all>>("All", kBool),
    {.name = "Prod",
     .module = "numpy",
     .dtype = OutputDtype::kOption,
     .compute =
         [](C call) {
           const at::Tensor y = reduce<by_axis<prod>>(call);
           return y.to(dtype_option(call, y.scalar_type()));
         },
     .options = "axis keepdims dtype"},
    {.name = "Argmax",
     .module = "numpy",
     .dtype = OutputDtype::kInt32,
     .compute =
         [](C call) {
           return at::argmax(call.tensor(0, "x"), one_axis(call), call.flag("keepdims"))
               .to(at::kInt);
         },
     .options = "axis keepdims"},
    {.name = "Argmin",
     .module = "numpy",
     .dtype = OutputDtype::kInt32,
     .compute =
         [](C call) {
           return at::argmin(call.tensor(0, "x"), one_axis(call), call.flag("keepdims"))
               .to(at::kInt);
         },
     .options = "axis keepdims"},
    {.name = "Cumsum",
     .module = "numpy",
     .dtype = OutputDtype::kOption,
     .compute =
         [](C call) {
           const at::Tensor x = call.tensor(0, "x");
           const std::optional<int64_t> axis = one_axis(call);
           const at::ScalarType dtype = dtype_option(call, x.scalar_type());
           return axis ? at::cumsum(x, *axis, dtype) : at::cumsum(x.flatten(), 0, dtype);
         },
     .options = "axis dtype"},
};

}  // namespace

std::span<const OperationRow> reduction_operations() { return kReductionRows; }

}  // namespace strata::keras::detail
