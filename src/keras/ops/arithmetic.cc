#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/le.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/round.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/square.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tan.h>
#include <ATen/ops/tanh.h>

#include "keras/graph/input_layer.h"
#include "keras/ops/operation.h"

namespace strata::keras::detail {
namespace {

using C = const OperationCall&;

template <at::Tensor (*function)(const at::Tensor&)>
constexpr OperationRow unary(std::string_view name, std::string_view module, OutputDtype dtype) {
  return {.name = name,
          .module = module,
          .dtype = dtype,
          .compute = [](C call) { return function(call.tensor(0, "x")); },
          .elementwise = true};
}

template <at::Tensor (*function)(const at::Tensor&, const at::Tensor&)>
constexpr OperationRow binary(std::string_view name, OutputDtype dtype = OutputDtype::kPromoted) {
  return {.name = name,
          .module = "numpy",
          .dtype = dtype,
          .compute = [](C call) { return function(call.tensor(0, "x1"), call.tensor(1, "x2")); },
          .elementwise = true};
}

at::Tensor add(const at::Tensor& a, const at::Tensor& b) { return at::add(a, b); }
at::Tensor sub(const at::Tensor& a, const at::Tensor& b) { return at::sub(a, b); }
at::Tensor div(const at::Tensor& a, const at::Tensor& b) { return at::div(a, b); }
at::Tensor pow(const at::Tensor& a, const at::Tensor& b) { return at::pow(a, b); }

at::Tensor clip(C call) {
  const at::Tensor x = call.tensor(0, "x");
  std::optional<at::Scalar> low, high;
  if (const Json& value = call.option("x_min"); !value.is_null()) low = value.as_double();
  if (const Json& value = call.option("x_max"); !value.is_null()) high = value.as_double();
  return at::clamp(x, low, high);
}

at::Tensor cast(C call) {
  return call.tensor(0, "x").to(dtype_of_name(call.option("dtype").as_string()));
}

using enum OutputDtype;

const OperationRow kArithmeticRows[] = {
    binary<add>("Add"),
    binary<sub>("Subtract"),
    binary<at::mul>("Multiply"),
    binary<div>("Divide", kFloating),
    binary<div>("TrueDivide", kFloating),
    binary<at::floor_divide>("FloorDivide"),
    binary<at::remainder>("Mod"),
    binary<pow>("Power"),
    binary<at::maximum>("Maximum"),
    binary<at::minimum>("Minimum"),
    binary<at::eq>("Equal", kBool),
    binary<at::ne>("NotEqual", kBool),
    binary<at::gt>("Greater", kBool),
    binary<at::ge>("GreaterEqual", kBool),
    binary<at::lt>("Less", kBool),
    binary<at::le>("LessEqual", kBool),
    binary<at::logical_and>("LogicalAnd", kBool),
    binary<at::logical_or>("LogicalOr", kBool),
    unary<at::logical_not>("LogicalNot", "numpy", kBool),
    unary<at::neg>("Negative", "numpy", kPromoted),
    unary<at::abs>("Absolute", "numpy", kPromoted),
    unary<at::abs>("Abs", "numpy", kPromoted),
    unary<at::sign>("Sign", "numpy", kPromoted),
    unary<at::square>("Square", "numpy", kPromoted),
    unary<at::exp>("Exp", "numpy", kFloating),
    unary<at::expm1>("Expm1", "numpy", kFloating),
    unary<at::log>("Log", "numpy", kFloating),
    unary<at::log1p>("Log1p", "numpy", kFloating),
    unary<at::sqrt>("Sqrt", "numpy", kFloating),
    unary<at::rsqrt>("Rsqrt", "math", kFloating),
    unary<at::erf>("Erf", "math", kFloating),
    unary<at::reciprocal>("Reciprocal", "numpy", kFloating),
    unary<at::sin>("Sin", "numpy", kFloating),
    unary<at::cos>("Cos", "numpy", kFloating),
    unary<at::tan>("Tan", "numpy", kFloating),
    unary<at::tanh>("Tanh", "numpy", kFloating),
    unary<at::floor>("Floor", "numpy", kFloating),
    unary<at::ceil>("Ceil", "numpy", kFloating),
    {.name = "Round",
     .module = "numpy",
     .dtype = kPromoted,
     .compute = [](C call) { return at::round(call.tensor(0, "x"), call.integer("decimals", 0)); },
     .elementwise = true,
     .options = "decimals"},
    {.name = "Clip",
     .module = "numpy",
     .dtype = kPromoted,
     .compute = clip,
     .elementwise = true,
     .options = "x_min x_max"},
    {.name = "Cast",
     .module = "core",
     .dtype = OutputDtype::kOption,
     .compute = cast,
     .elementwise = true,
     .options = "dtype"},
    {.name = "StopGradient",
     .module = "core",
     .dtype = kPromoted,
     .compute = [](C call) { return call.tensor(0, "variable").detach(); },
     .elementwise = true},
    {.name = "Matmul",
     .module = "numpy",
     .dtype = kPromoted,
     .compute = [](C call) { return at::matmul(call.tensor(0, "x1"), call.tensor(1, "x2")); }},
};

}  // namespace

std::span<const OperationRow> arithmetic_operations() { return kArithmeticRows; }

}  // namespace strata::keras::detail
