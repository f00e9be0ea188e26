// Operators that work element by element, but activations.
#include <cmath>
#include <limits>

#include "graph/comparison_dtype.h"
#include "graph/stablehlo/rules.h"
#include "strata/core/str_cat.h"

namespace strata::graph::stablehlo {
namespace {

template <const char* const& op>
void function(NodeLowering& node) {
  node.give(unary(op, node.in(0, node.dtype())));
}

template <const char* const& op>
void function_of_two(NodeLowering& node) {
  node.give(binary(op, node.operand(0, node.dtype()), node.operand(1, node.dtype())));
}

template <const char* const& direction>
void comparison(NodeLowering& node) {
  const at::ScalarType dtype = comparison_dtype(node);
  node.give(compare(direction, node.operand(0, dtype), node.operand(1, dtype)));
}

template <const char* const& op>
void logical(NodeLowering& node) {
  node.give(binary(op, node.in(0, at::kBool), node.in(1, at::kBool)));
}

void logical_not(NodeLowering& node) { node.give(unary("stablehlo.not", node.in(0, at::kBool))); }

/// a + alpha * b, or with a and b exchanged.
void combination(NodeLowering& node, bool minus, size_t first, size_t second) {
  const at::ScalarType dtype = node.dtype();
  const Array a = node.operand(first, dtype);
  Array b = node.operand(second, dtype);
  if (node.num_arguments() > 2 && node.number(2) != 1) b = b * node.number(2);
  if (a.is_bool()) return node.give(either(a, b));
  node.give(minus ? a - b : a + b);
}
void add(NodeLowering& node) { combination(node, false, 0, 1); }
void sub(NodeLowering& node) { combination(node, true, 0, 1); }
void rsub(NodeLowering& node) { combination(node, true, 1, 0); }

void mul(NodeLowering& node) {
  const Array a = node.operand(0, node.dtype()), b = node.operand(1, node.dtype());
  node.give(a.is_bool() ? both(a, b) : a * b);
}

/// Integers are divided as StableHLO does, towards zero.
Array floor_quotient(const Array& a, const Array& b) {
  if (!a.is_integer()) return unary("stablehlo.floor", a / b);
  const Array quotient = a / b;
  const Array rest = binary("stablehlo.remainder", a, b);
  const Array zero = number_like(a, 0);
  const Array other_sign =
      compare("NE", compare("LT", rest, zero), compare("LT", broadcast_to(b, rest.sizes), zero));
  return select(both(compare("NE", rest, zero), other_sign), quotient - 1, quotient);
}

Array truncated(const Array& x) {
  if (!x.is_floating()) return x;
  return unary("stablehlo.sign", x) * unary("stablehlo.floor", absolute(x));
}

void div(NodeLowering& node) {
  const at::ScalarType dtype = node.dtype();
  const Array a = node.operand(0, dtype), b = node.operand(1, dtype);
  if (node.is_none(2)) return node.give(a / b);
  node.give(node.text(2) == "floor" ? floor_quotient(a, b) : truncated(a / b));
}

void floor_divide(NodeLowering& node) {
  node.give(floor_quotient(node.operand(0, node.dtype()), node.operand(1, node.dtype())));
}

void remainder(NodeLowering& node) {
  const Array a = node.operand(0, node.dtype()), b = node.operand(1, node.dtype());
  const Array rest = binary("stablehlo.remainder", a, b);
  const Array zero = number_like(a, 0);
  const Array other_sign =
      compare("NE", compare("LT", rest, zero), compare("LT", broadcast_to(b, rest.sizes), zero));
  node.give(select(both(compare("NE", rest, zero), other_sign), rest + b, rest));
}

void pow(NodeLowering& node) {
  const at::ScalarType dtype = node.dtype();
  const Array x = node.operand(0, dtype);
  if (!node.is_tensor(1)) {  // the exact ones, as libtorch has them
    const double exponent = node.number(1);
    if (exponent == 2) return node.give(x * x);
    if (exponent == 3) return node.give(x * x * x);
    if (x.is_floating()) {
      if (exponent == 0.5) return node.give(sqrt(x));
      if (exponent == -0.5) return node.give(1 / sqrt(x));
      if (exponent == -1) return node.give(1 / x);
      if (exponent == -2) return node.give(1 / (x * x));
    }
  }
  node.give(power(x, node.operand(1, dtype)));
}

void exp2(NodeLowering& node) {
  const Array x = node.in(0, node.dtype());
  node.give(power(number_like(x, 2), x));
}
void log2(NodeLowering& node) { node.give(log(node.in(0, node.dtype())) / std::log(2.0)); }
void log10(NodeLowering& node) { node.give(log(node.in(0, node.dtype())) / std::log(10.0)); }
void rsqrt(NodeLowering& node) { node.give(1 / sqrt(node.in(0, node.dtype()))); }
void reciprocal(NodeLowering& node) { node.give(1 / node.in(0, node.dtype())); }
void trunc(NodeLowering& node) { node.give(truncated(node.in(0))); }
void frac(NodeLowering& node) {
  const Array x = node.in(0);
  node.give(x - truncated(x));
}

void rounding(NodeLowering& node, std::string_view op) {
  const Array x = node.in(0);
  node.give(x.is_floating() ? unary(op, x) : x);
}
void floor(NodeLowering& node) { rounding(node, "stablehlo.floor"); }
void ceil(NodeLowering& node) { rounding(node, "stablehlo.ceil"); }
void round(NodeLowering& node) {
  node.require(node.num_arguments() == 1 || node.number(1) == 0, "decimals");
  rounding(node, "stablehlo.round_nearest_even");
}

void sign(NodeLowering& node) {
  const Array x = node.in(0);
  node.give(x.is_bool() ? x : unary("stablehlo.sign", x));
}

void is_nan_rule(NodeLowering& node) { node.give(is_nan(node.in(0))); }
void is_infinite(NodeLowering& node) {
  const Array x = node.in(0);
  if (!x.is_floating()) return node.give(filled(node.program(), 0, at::kBool, x.sizes));
  const double infinity = std::numeric_limits<double>::infinity();
  node.give(compare("EQ", absolute(x), number_like(x, infinity)));
}

double largest_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return std::numeric_limits<double>::max();
    case at::kHalf:
      return 65504;
    case at::kBFloat16:
      return 3.3895313892515355e38;
    default:
      return std::numeric_limits<float>::max();
  }
}

void nan_to_num(NodeLowering& node) {
  const Array x = node.in(0);
  if (!x.is_floating()) return node.give(x);
  const double infinity = std::numeric_limits<double>::infinity();
  const double largest = largest_of(x.dtype);
  const auto replaced = [&](const Array& at, double from, size_t argument, double otherwise) {
    return select(compare("EQ", x, number_like(x, from)),
                  number_like(x, node.is_none(argument) ? otherwise : node.number(argument)), at);
  };
  const Array numbers = select(is_nan(x), number_like(x, node.is_none(1) ? 0 : node.number(1)), x);
  node.give(replaced(replaced(numbers, infinity, 2, largest), -infinity, 3, -largest));
}

void where(NodeLowering& node) {
  node.give(
      select(node.in(0, at::kBool), node.operand(1, node.dtype()), node.operand(2, node.dtype())));
}

void masked_fill(NodeLowering& node) {
  node.give(select(node.in(1, at::kBool), node.operand(2, node.dtype()), node.in(0)));
}

void clamp(NodeLowering& node) {
  const at::ScalarType dtype = node.dtype();
  Array x = node.in(0, dtype);
  if (!node.is_none(1)) x = maximum(x, node.operand(1, dtype));
  if (!node.is_none(2)) x = minimum(x, node.operand(2, dtype));
  node.give(x);
}
void clamp_max(NodeLowering& node) {
  node.give(minimum(node.in(0, node.dtype()), node.operand(1, node.dtype())));
}

void addcmul(NodeLowering& node) {
  const at::ScalarType dtype = node.dtype();
  node.give(node.in(0, dtype) + node.number(3) * (node.in(1, dtype) * node.in(2, dtype)));
}
void addcdiv(NodeLowering& node) {
  const at::ScalarType dtype = node.dtype();
  node.give(node.in(0, dtype) + node.number(3) * (node.in(1, dtype) / node.in(2, dtype)));
}
void lerp(NodeLowering& node) {
  const Array a = node.in(0), b = node.in(1), weight = node.operand(2, node.dtype());
  // libtorch starts from the nearer end.
  const Array from_a = a + weight * (b - a), from_b = b - (b - a) * (1 - weight);
  node.give(select(compare("LT", absolute(weight), number_like(weight, 0.5)), from_a, from_b));
}

void hypot(NodeLowering& node) {
  const Array a = absolute(node.in(0)), b = absolute(node.in(1));
  const Array large = maximum(a, b), small = minimum(a, b);
  const Array ratio =
      small / select(compare("EQ", large, number_like(large, 0)), number_like(large, 1), large);
  node.give(large * sqrt(1 + ratio * ratio));
}

void xlogy(NodeLowering& node) {
  const Array x = node.operand(0, node.dtype()), y = node.operand(1, node.dtype());
  const Array product = x * log(y);
  const Array zero =
      both(compare("EQ", x, number_like(x, 0)), unary("stablehlo.not", compare("NE", y, y)));
  node.give(select(zero, number_like(product, 0), product));
}

void logit(NodeLowering& node) {  // (x, eps)
  Array x = node.in(0, node.dtype());
  if (!node.is_none(1)) x = minimum(maximum(x, node.number(1)), 1 - node.number(1));
  node.give(log(x / (1 - x)));
}

void bits(NodeLowering& node, std::string_view op) {
  node.give(binary(op, node.operand(0, node.dtype()), node.operand(1, node.dtype())));
}
void bitwise_and(NodeLowering& node) { bits(node, "stablehlo.and"); }
void bitwise_or(NodeLowering& node) { bits(node, "stablehlo.or"); }
void bitwise_xor(NodeLowering& node) { bits(node, "stablehlo.xor"); }
void bitwise_not(NodeLowering& node) { node.give(unary("stablehlo.not", node.in(0))); }

void copied(NodeLowering& node) { node.give(node.in(0, node.dtype())); }

/// `copy(self, source)`: what is written.
void copy(NodeLowering& node) {
  node.give(broadcast_to(node.in(1, node.dtype()), node.value(0).sizes));
}

constexpr const char* kAbs = "stablehlo.abs";
constexpr const char* kAcos = "chlo.acos";
constexpr const char* kAcosh = "chlo.acosh";
constexpr const char* kAsin = "chlo.asin";
constexpr const char* kAsinh = "chlo.asinh";
constexpr const char* kAtan = "chlo.atan";
constexpr const char* kAtan2 = "stablehlo.atan2";
constexpr const char* kAtanh = "chlo.atanh";
constexpr const char* kCos = "stablehlo.cosine";
constexpr const char* kCosh = "chlo.cosh";
constexpr const char* kDigamma = "chlo.digamma";
constexpr const char* kErf = "chlo.erf";
constexpr const char* kErfc = "chlo.erfc";
constexpr const char* kErfinv = "chlo.erf_inv";
constexpr const char* kExp = "stablehlo.exponential";
constexpr const char* kExpm1 = "stablehlo.exponential_minus_one";
constexpr const char* kLgamma = "chlo.lgamma";
constexpr const char* kLog = "stablehlo.log";
constexpr const char* kLog1p = "stablehlo.log_plus_one";
constexpr const char* kNegate = "stablehlo.negate";
constexpr const char* kSin = "stablehlo.sine";
constexpr const char* kSinh = "chlo.sinh";
constexpr const char* kSqrt = "stablehlo.sqrt";
constexpr const char* kTan = "stablehlo.tan";
constexpr const char* kTanh = "stablehlo.tanh";
constexpr const char* kMaximum = "stablehlo.maximum";
constexpr const char* kMinimum = "stablehlo.minimum";
constexpr const char* kRemainder = "stablehlo.remainder";
constexpr const char* kAnd = "stablehlo.and";
constexpr const char* kOr = "stablehlo.or";
constexpr const char* kXor = "stablehlo.xor";
constexpr const char* kEq = "EQ";
constexpr const char* kNe = "NE";
constexpr const char* kGe = "GE";
constexpr const char* kGt = "GT";
constexpr const char* kLe = "LE";
constexpr const char* kLt = "LT";

}  // namespace

const Rules& elementwise_rules() {
  static const Rules rules = {
      {"aten::_to_copy", {copied}},
      {"aten::abs", {function<kAbs>}},
      {"aten::acos", {function<kAcos>}},
      {"aten::acosh", {function<kAcosh>}},
      {"aten::add", {add}},
      {"aten::addcdiv", {addcdiv}},
      {"aten::addcmul", {addcmul}},
      {"aten::asin", {function<kAsin>}},
      {"aten::asinh", {function<kAsinh>}},
      {"aten::atan", {function<kAtan>}},
      {"aten::atan2", {function_of_two<kAtan2>}},
      {"aten::atanh", {function<kAtanh>}},
      {"aten::bitwise_and", {bitwise_and}},
      {"aten::bitwise_not", {bitwise_not}},
      {"aten::bitwise_or", {bitwise_or}},
      {"aten::bitwise_xor", {bitwise_xor}},
      {"aten::ceil", {ceil}},
      {"aten::clamp", {clamp}},
      {"aten::clamp_max", {clamp_max}},
      {"aten::clamp_min", {clamp}},
      {"aten::clone", {copied}},
      {"aten::copy", {copy}},
      {"aten::cos", {function<kCos>}},
      {"aten::cosh", {function<kCosh>}},
      {"aten::digamma", {function<kDigamma>}},
      {"aten::div", {div}},
      {"aten::eq", {comparison<kEq>}},
      {"aten::erf", {function<kErf>}},
      {"aten::erfc", {function<kErfc>}},
      {"aten::erfinv", {function<kErfinv>}},
      {"aten::exp", {function<kExp>}},
      {"aten::exp2", {exp2}},
      {"aten::expm1", {function<kExpm1>}},
      {"aten::floor", {floor}},
      {"aten::floor_divide", {floor_divide}},
      {"aten::fmod", {function_of_two<kRemainder>}},
      {"aten::frac", {frac}},
      {"aten::ge", {comparison<kGe>}},
      {"aten::gt", {comparison<kGt>}},
      {"aten::hypot", {hypot}},
      {"aten::isinf", {is_infinite}},
      {"aten::isnan", {is_nan_rule}},
      {"aten::le", {comparison<kLe>}},
      {"aten::lerp", {lerp}},
      {"aten::lgamma", {function<kLgamma>}},
      {"aten::log", {function<kLog>}},
      {"aten::log10", {log10}},
      {"aten::log1p", {function<kLog1p>}},
      {"aten::log2", {log2}},
      {"aten::logical_and", {logical<kAnd>}},
      {"aten::logical_not", {logical_not}},
      {"aten::logical_or", {logical<kOr>}},
      {"aten::logical_xor", {logical<kXor>}},
      {"aten::logit", {logit}},
      {"aten::lt", {comparison<kLt>}},
      {"aten::masked_fill", {masked_fill}},
      {"aten::maximum", {function_of_two<kMaximum>}},
      {"aten::minimum", {function_of_two<kMinimum>}},
      {"aten::mul", {mul}},
      {"aten::nan_to_num", {nan_to_num}},
      {"aten::ne", {comparison<kNe>}},
      {"aten::neg", {function<kNegate>}},
      {"aten::pow", {pow}},
      {"aten::reciprocal", {reciprocal}},
      {"aten::remainder", {remainder}},
      {"aten::round", {round}},
      {"aten::rsqrt", {rsqrt}},
      {"aten::rsub", {rsub}},
      {"aten::sgn", {sign}},
      {"aten::sign", {sign}},
      {"aten::sin", {function<kSin>}},
      {"aten::sinh", {function<kSinh>}},
      {"aten::sqrt", {function<kSqrt>}},
      {"aten::sub", {sub}},
      {"aten::tan", {function<kTan>}},
      {"aten::tanh", {function<kTanh>}},
      {"aten::trunc", {trunc}},
      {"aten::where", {where}},
      {"aten::xlogy", {xlogy}},
  };
  return rules;
}

}  // namespace strata::graph::stablehlo
