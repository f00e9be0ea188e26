#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/atan2.h>
#include <ATen/ops/fmax.h>
#include <ATen/ops/fmin.h>
#include <ATen/ops/fmod.h>
#include <ATen/ops/gcd.h>
#include <ATen/ops/hypot.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/isclose.h>
#include <ATen/ops/isneginf.h>
#include <ATen/ops/isposinf.h>
#include <ATen/ops/isreal.h>
#include <ATen/ops/lcm.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logaddexp2.h>
#include <ATen/ops/polar.h>
#include <ATen/ops/real.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include "keras/ops/arguments.h"

namespace strata::keras::detail {
namespace {

using C = const OperationCall&;

at::Tensor x_in(C call) { return call.tensor(0, "x"); }

struct Pair {
  at::Tensor a, b;
};
Pair pair_in(C call, const char* first = "x1", const char* second = "x2") {
  return {call.tensor(0, first), call.tensor(1, second)};
}
/// Both of one dtype, which is no whole number.
Pair floating_pair(C call) {
  const Pair x = pair_in(call);
  const at::ScalarType dtype =
      c10::promoteTypes(floating(x.a).scalar_type(), floating(x.b).scalar_type());
  return {x.a.to(dtype), x.b.to(dtype)};
}
Pair bits(C call) { return pair_in(call, "x", "y"); }

at::Tensor conjugate(C call) { return x_in(call).conj().resolve_conj(); }
at::Tensor bitwise_not(C call) { return x_in(call).bitwise_not(); }
at::Tensor left_shift(C call) { return bits(call).a.bitwise_left_shift(bits(call).b); }
at::Tensor right_shift(C call) { return bits(call).a.bitwise_right_shift(bits(call).b); }

at::Tensor copy(C call) {
  const at::Tensor x = x_in(call);
  return x.to(dtype_option(call, x.scalar_type())).clone();
}

at::Tensor nan_to_num(C call) {
  const auto value = [&](const char* name) -> std::optional<double> {
    const Json& json = call.option(name);
    return json.is_null() ? std::nullopt : std::optional(json.as_double());
  };
  return x_in(call).nan_to_num(value("nan"), value("posinf"), value("neginf"));
}

/// Nearest representable value of a narrower dtype, instead of what overflow makes.
at::Tensor saturate_cast(C call) {
  const at::Tensor x = x_in(call);
  const at::ScalarType to = dtype_of_name(call.option("dtype").as_string());
  const auto limits = [&]() -> std::pair<double, double> {
    switch (to) {
      case at::kByte:
        return {0, 255};
      case at::kChar:
        return {-128, 127};
      case at::kShort:
        return {-32768, 32767};
      case at::kInt:
        return {-2147483648.0, 2147483647.0};
      case at::kHalf:
        return {-65504, 65504};
      case at::kBool:
        return {0, 1};
      default:
        return {-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
    }
  };
  const auto [low, high] = limits();
  const bool narrower = std::isfinite(low) && x.scalar_type() != to && x.scalar_type() != at::kBool;
  return (narrower ? x.to(at::kDouble).clamp(low, high) : x).to(to);
}

const OperationRow kElementaryRows[] = {
    one("numpy", "Angle", [](C call) { return floating(x_in(call)).angle(); }),
    one("numpy", "Arccos", [](C call) { return x_in(call).acos(); }),
    one("numpy", "Arccosh", [](C call) { return x_in(call).acosh(); }),
    one("numpy", "Arcsin", [](C call) { return x_in(call).asin(); }),
    one("numpy", "Arcsinh", [](C call) { return x_in(call).asinh(); }),
    one("numpy", "Arctan", [](C call) { return x_in(call).atan(); }),
    one("numpy", "Arctanh", [](C call) { return x_in(call).atanh(); }),
    one("numpy", "Cbrt",
        [](C call) {
          const at::Tensor x = floating(x_in(call));
          return x.sign() * x.abs().pow(1.0 / 3);
        }),
    one("numpy", "Conj", conjugate),
    one("numpy", "Conjugate", conjugate),
    one("numpy", "Cosh", [](C call) { return x_in(call).cosh(); }),
    one("numpy", "Deg2rad", [](C call) { return floating(x_in(call)).deg2rad(); }),
    one("numpy", "Exp2", [](C call) { return x_in(call).exp2(); }),
    one("numpy", "Fabs", [](C call) { return floating(x_in(call)).abs(); }),
    one("numpy", "I0", [](C call) { return x_in(call).i0(); }),
    one("numpy", "Imag",
        [](C call) {
          const at::Tensor x = x_in(call);
          return x.is_complex() ? at::imag(x) : at::zeros_like(x);
        }),
    one("numpy", "Real",
        [](C call) {
          const at::Tensor x = x_in(call);
          return x.is_complex() ? at::real(x) : x;
        }),
    one("numpy", "Isfinite", [](C call) { return x_in(call).isfinite(); }),
    one("numpy", "Isinf", [](C call) { return x_in(call).isinf(); }),
    one("numpy", "Isnan", [](C call) { return x_in(call).isnan(); }),
    one("numpy", "Isneginf", [](C call) { return at::isneginf(x_in(call)); }),
    one("numpy", "Isposinf", [](C call) { return at::isposinf(x_in(call)); }),
    one("numpy", "Isreal", [](C call) { return at::isreal(x_in(call)); }),
    one("numpy", "Log10", [](C call) { return x_in(call).log10(); }),
    one("numpy", "Log2", [](C call) { return x_in(call).log2(); }),
    one("numpy", "NanToNum", nan_to_num, "nan posinf neginf"),
    one("numpy", "Rad2deg", [](C call) { return floating(x_in(call)).rad2deg(); }),
    one("numpy", "Signbit", [](C call) { return x_in(call).signbit(); }),
    one("numpy", "Sinc", [](C call) { return x_in(call).sinc(); }),
    one("numpy", "Sinh", [](C call) { return x_in(call).sinh(); }),
    one("numpy", "Trunc", [](C call) { return floating(x_in(call)).trunc(); }),
    one("numpy", "Copy", copy),
    one("numpy", "Array", copy, "dtype"),
    one("core", "ConvertToTensor", copy, "dtype sparse ragged"),
    one("core", "SaturateCast", saturate_cast, "dtype"),
    one(
        "numpy", "View",
        [](C call) {
          const at::Tensor x = x_in(call);
          return x.view(dtype_option(call, x.scalar_type()));
        },
        "dtype"),
    one("math", "Erfc", [](C call) { return x_in(call).erfc(); }),
    one("math", "Erfinv", [](C call) { return x_in(call).erfinv(); }),
    one("math", "ViewAsComplex",
        [](C call) { return at::view_as_complex(x_in(call).contiguous()); }),
    one("math", "ViewAsReal", [](C call) { return at::view_as_real(x_in(call).resolve_conj()); }),

    one("numpy", "Arctan2",
        [](C call) {
          const Pair x = floating_pair(call);
          return at::atan2(x.a, x.b);
        }),
    one("numpy", "BitwiseAnd", [](C call) { return bits(call).a.bitwise_and(bits(call).b); }),
    one("numpy", "BitwiseOr", [](C call) { return bits(call).a.bitwise_or(bits(call).b); }),
    one("numpy", "BitwiseXor", [](C call) { return bits(call).a.bitwise_xor(bits(call).b); }),
    one("numpy", "BitwiseInvert", bitwise_not),
    one("numpy", "BitwiseNot", bitwise_not),
    one("numpy", "BitwiseLeftShift", left_shift),
    one("numpy", "LeftShift", left_shift),
    one("numpy", "BitwiseRightShift", right_shift),
    one("numpy", "RightShift", right_shift),
    one("numpy", "DivideNoNan",
        [](C call) {
          const Pair x = floating_pair(call);
          const at::Tensor none = x.b == 0;
          return at::where(none, 0.0, x.a / at::where(none, 1.0, x.b)).to(x.a.scalar_type());
        }),
    one("numpy", "Fmax",
        [](C call) {
          const Pair x = pair_in(call);
          return at::fmax(x.a, x.b);
        }),
    one("numpy", "Fmin",
        [](C call) {
          const Pair x = pair_in(call);
          return at::fmin(x.a, x.b);
        }),
    one("numpy", "Fmod",
        [](C call) {
          const Pair x = pair_in(call);
          return at::fmod(x.a, x.b);
        }),
    one("numpy", "Gcd",
        [](C call) {
          const Pair x = pair_in(call);
          return at::gcd(x.a, x.b);
        }),
    one("numpy", "Lcm",
        [](C call) {
          const Pair x = pair_in(call);
          return at::lcm(x.a, x.b);
        }),
    one("numpy", "Heaviside",
        [](C call) {
          const Pair x = floating_pair(call);
          return at::where(x.a == 0, x.b, (x.a > 0).to(x.a.scalar_type()));
        }),
    one("numpy", "Hypot",
        [](C call) {
          const Pair x = floating_pair(call);
          return at::hypot(x.a, x.b);
        }),
    one(
        "numpy", "Isclose",
        [](C call) {
          const Pair x = floating_pair(call);
          const Json &rtol = call.argument(2, "rtol"), &atol = call.argument(3, "atol");
          return at::isclose(x.a, x.b, rtol.is_null() ? 1e-5 : rtol.as_double(),
                             atol.is_null() ? 1e-8 : atol.as_double(), call.flag("equal_nan"));
        },
        "equal_nan"),
    one(
        "numpy", "AllClose",
        [](C call) {
          const Pair x = floating_pair(call);
          return at::isclose(x.a, x.b, call.number("rtol", 1e-5), call.number("atol", 1e-8),
                             call.flag("equal_nan"))
              .all();
        },
        "rtol atol equal_nan"),
    one("numpy", "Ldexp",
        [](C call) {
          const Pair x = pair_in(call);
          return floating(x.a) * floating(x.b).to(floating(x.a).scalar_type()).exp2();
        }),
    one("numpy", "LogicalXor", [](C call) { return pair_in(call).a.logical_xor(pair_in(call).b); }),
    one("numpy", "Logaddexp",
        [](C call) {
          const Pair x = floating_pair(call);
          return at::logaddexp(x.a, x.b);
        }),
    one("numpy", "Logaddexp2",
        [](C call) {
          const Pair x = floating_pair(call);
          return at::logaddexp2(x.a, x.b);
        }),
    one("numpy", "Nextafter",
        [](C call) {
          const Pair x = floating_pair(call);
          return x.a.nextafter(x.b);
        }),
    one("nn", "Polar",
        [](C call) { return at::polar(call.tensor(0, "abs_"), call.tensor(1, "angle")); }),
};

}  // namespace

std::span<const OperationRow> elementary_operations() { return kElementaryRows; }

}  // namespace strata::keras::detail
