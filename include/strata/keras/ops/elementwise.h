#pragma once

#include "strata/keras/ops/call.h"

/// Functions of each element.
/// Source: keras.ops 3.15.
namespace strata::keras::ops {

inline Value auto abs(const Value auto& x) { return call("Abs", {}, x); }
inline Value auto absolute(const Value auto& x) { return call("Absolute", {}, x); }
inline Value auto angle(const Value auto& x) { return call("Angle", {}, x); }
inline Value auto arccos(const Value auto& x) { return call("Arccos", {}, x); }
inline Value auto arccosh(const Value auto& x) { return call("Arccosh", {}, x); }
inline Value auto arcsin(const Value auto& x) { return call("Arcsin", {}, x); }
inline Value auto arcsinh(const Value auto& x) { return call("Arcsinh", {}, x); }
inline Value auto arctan(const Value auto& x) { return call("Arctan", {}, x); }
inline Value auto arctanh(const Value auto& x) { return call("Arctanh", {}, x); }
inline Value auto bitwise_invert(const Value auto& x) { return call("BitwiseInvert", {}, x); }
inline Value auto bitwise_not(const Value auto& x) { return call("BitwiseNot", {}, x); }
inline Value auto cbrt(const Value auto& x) { return call("Cbrt", {}, x); }
inline Value auto ceil(const Value auto& x) { return call("Ceil", {}, x); }
inline Value auto conj(const Value auto& x) { return call("Conj", {}, x); }
inline Value auto conjugate(const Value auto& x) { return call("Conjugate", {}, x); }
inline Value auto copy(const Value auto& x) { return call("Copy", {}, x); }
inline Value auto cos(const Value auto& x) { return call("Cos", {}, x); }
inline Value auto cosh(const Value auto& x) { return call("Cosh", {}, x); }
inline Value auto deg2rad(const Value auto& x) { return call("Deg2rad", {}, x); }
inline Value auto exp(const Value auto& x) { return call("Exp", {}, x); }
inline Value auto exp2(const Value auto& x) { return call("Exp2", {}, x); }
inline Value auto expm1(const Value auto& x) { return call("Expm1", {}, x); }
inline Value auto fabs(const Value auto& x) { return call("Fabs", {}, x); }
inline Value auto floor(const Value auto& x) { return call("Floor", {}, x); }
inline Value auto i0(const Value auto& x) { return call("I0", {}, x); }
inline Value auto imag(const Value auto& x) { return call("Imag", {}, x); }
inline Value auto isfinite(const Value auto& x) { return call("Isfinite", {}, x); }
inline Value auto isinf(const Value auto& x) { return call("Isinf", {}, x); }
inline Value auto isnan(const Value auto& x) { return call("Isnan", {}, x); }
inline Value auto isneginf(const Value auto& x) { return call("Isneginf", {}, x); }
inline Value auto isposinf(const Value auto& x) { return call("Isposinf", {}, x); }
inline Value auto isreal(const Value auto& x) { return call("Isreal", {}, x); }
inline Value auto log(const Value auto& x) { return call("Log", {}, x); }
inline Value auto log10(const Value auto& x) { return call("Log10", {}, x); }
inline Value auto log1p(const Value auto& x) { return call("Log1p", {}, x); }
inline Value auto log2(const Value auto& x) { return call("Log2", {}, x); }
inline Value auto logical_not(const Value auto& x) { return call("LogicalNot", {}, x); }
inline Value auto negative(const Value auto& x) { return call("Negative", {}, x); }
inline Value auto rad2deg(const Value auto& x) { return call("Rad2deg", {}, x); }
inline Value auto real(const Value auto& x) { return call("Real", {}, x); }
inline Value auto reciprocal(const Value auto& x) { return call("Reciprocal", {}, x); }
inline Value auto sign(const Value auto& x) { return call("Sign", {}, x); }
inline Value auto signbit(const Value auto& x) { return call("Signbit", {}, x); }
inline Value auto sin(const Value auto& x) { return call("Sin", {}, x); }
inline Value auto sinc(const Value auto& x) { return call("Sinc", {}, x); }
inline Value auto sinh(const Value auto& x) { return call("Sinh", {}, x); }
inline Value auto sqrt(const Value auto& x) { return call("Sqrt", {}, x); }
inline Value auto square(const Value auto& x) { return call("Square", {}, x); }
inline Value auto tan(const Value auto& x) { return call("Tan", {}, x); }
inline Value auto tanh(const Value auto& x) { return call("Tanh", {}, x); }
inline Value auto trunc(const Value auto& x) { return call("Trunc", {}, x); }

/// Infinities and NaN as other numbers; unset: the largest and the smallest of the dtype.
inline Value auto nan_to_num(const Value auto& x, double nan = 0, std::optional<double> posinf = {},
                             std::optional<double> neginf = {}) {
  return call("NanToNum",
              {{"nan", nan},
               {"posinf", detail::json_or_null(posinf)},
               {"neginf", detail::json_or_null(neginf)}},
              x);
}
inline Value auto round(const Value auto& x, int64_t decimals = 0) {
  return call("Round", {{"decimals", decimals}}, x);
}
inline Value auto clip(const Value auto& x, double x_min, double x_max) {
  return call("Clip", {{"x_min", x_min}, {"x_max", x_max}}, x);
}
/// A copy, of another dtype if one is given.
inline Value auto array(const Value auto& x, std::optional<at::ScalarType> dtype = {}) {
  return call("Array", {{"dtype", detail::dtype_or_null(dtype)}}, x);
}
/// The same bits as numbers of another dtype.
inline Value auto view(const Value auto& x, std::optional<at::ScalarType> dtype = {}) {
  return call("View", {{"dtype", detail::dtype_or_null(dtype)}}, x);
}

// Two operands broadcast like NumPy; at least one is a tensor.
inline Value auto add(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Add", {}, x1, x2);
}
inline Value auto subtract(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Subtract", {}, x1, x2);
}
inline Value auto multiply(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Multiply", {}, x1, x2);
}
inline Value auto divide(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Divide", {}, x1, x2);
}
inline Value auto true_divide(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("TrueDivide", {}, x1, x2);
}
inline Value auto floor_divide(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("FloorDivide", {}, x1, x2);
}
inline Value auto mod(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Mod", {}, x1, x2);
}
inline Value auto fmod(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Fmod", {}, x1, x2);
}
inline Value auto power(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Power", {}, x1, x2);
}
inline Value auto maximum(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Maximum", {}, x1, x2);
}
inline Value auto minimum(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Minimum", {}, x1, x2);
}
inline Value auto fmax(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Fmax", {}, x1, x2);
}
inline Value auto fmin(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Fmin", {}, x1, x2);
}
inline Value auto arctan2(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Arctan2", {}, x1, x2);
}
inline Value auto hypot(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Hypot", {}, x1, x2);
}
inline Value auto heaviside(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Heaviside", {}, x1, x2);
}
inline Value auto ldexp(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Ldexp", {}, x1, x2);
}
inline Value auto logaddexp(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Logaddexp", {}, x1, x2);
}
inline Value auto logaddexp2(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Logaddexp2", {}, x1, x2);
}
inline Value auto nextafter(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Nextafter", {}, x1, x2);
}
inline Value auto divide_no_nan(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("DivideNoNan", {}, x1, x2);
}
inline Value auto gcd(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Gcd", {}, x1, x2);
}
inline Value auto lcm(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Lcm", {}, x1, x2);
}
inline Value auto equal(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Equal", {}, x1, x2);
}
inline Value auto not_equal(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("NotEqual", {}, x1, x2);
}
inline Value auto greater(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Greater", {}, x1, x2);
}
inline Value auto greater_equal(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("GreaterEqual", {}, x1, x2);
}
inline Value auto less(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("Less", {}, x1, x2);
}
inline Value auto less_equal(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("LessEqual", {}, x1, x2);
}
inline Value auto logical_and(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("LogicalAnd", {}, x1, x2);
}
inline Value auto logical_or(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("LogicalOr", {}, x1, x2);
}
inline Value auto logical_xor(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2) {
  return call("LogicalXor", {}, x1, x2);
}
inline Value auto bitwise_and(const ValueOrNumber auto& x, const ValueOrNumber auto& y) {
  return call("BitwiseAnd", {}, x, y);
}
inline Value auto bitwise_or(const ValueOrNumber auto& x, const ValueOrNumber auto& y) {
  return call("BitwiseOr", {}, x, y);
}
inline Value auto bitwise_xor(const ValueOrNumber auto& x, const ValueOrNumber auto& y) {
  return call("BitwiseXor", {}, x, y);
}
inline Value auto bitwise_left_shift(const ValueOrNumber auto& x, const ValueOrNumber auto& y) {
  return call("BitwiseLeftShift", {}, x, y);
}
inline Value auto bitwise_right_shift(const ValueOrNumber auto& x, const ValueOrNumber auto& y) {
  return call("BitwiseRightShift", {}, x, y);
}
inline Value auto left_shift(const ValueOrNumber auto& x, const ValueOrNumber auto& y) {
  return call("LeftShift", {}, x, y);
}
inline Value auto right_shift(const ValueOrNumber auto& x, const ValueOrNumber auto& y) {
  return call("RightShift", {}, x, y);
}
inline Value auto isclose(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2,
                          double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) {
  return call("Isclose", {{"equal_nan", equal_nan}}, x1, x2, rtol, atol);
}
/// One boolean.
inline Value auto allclose(const ValueOrNumber auto& x1, const ValueOrNumber auto& x2,
                           double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false) {
  return call("AllClose", {{"rtol", rtol}, {"atol", atol}, {"equal_nan", equal_nan}}, x1, x2);
}

}  // namespace strata::keras::ops
