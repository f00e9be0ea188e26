// Operators that work element by element.
#include <cmath>
#include <numbers>

#include "graph/comparison_dtype.h"
#include "graph/onnx/rules.h"

namespace strata::graph::onnx {
namespace {

template <const char* const& op>
void unary(NodeExport& node) {
  node.give(node.add(op, {node.tensor(0, node.dtype())}));
}

template <const char* const& op>
void predicate(NodeExport& node) {
  node.give(node.add(op, {node.tensor(0)}));
}

template <const char* const& op>
void binary(NodeExport& node) {
  node.give(node.add(op, {node.operand(0, node.dtype()), node.operand(1, node.dtype())}));
}

template <const char* const& op>
void comparison(NodeExport& node) {
  const at::ScalarType dtype = comparison_dtype(node);
  node.give(node.add(op, {node.tensor(0, dtype), node.operand(1, dtype)}));
}

void not_equal(NodeExport& node) {
  const at::ScalarType dtype = comparison_dtype(node);
  node.give(node.add("Not", {node.add("Equal", {node.tensor(0, dtype), node.operand(1, dtype)})}));
}

template <const char* const& op>
void logical(NodeExport& node) {
  node.give(node.add(op, {node.tensor(0, at::kBool), node.tensor(1, at::kBool)}));
}

template <const char* const& op>
void bitwise(NodeExport& node) {
  node.require(node.dtype() == at::kBool, "bits of integers");
  node.give(node.add(op, {node.tensor(0, at::kBool), node.operand(1, at::kBool)}));
}

void logical_not(NodeExport& node) { node.give(node.add("Not", {node.tensor(0, at::kBool)})); }

void bitwise_not(NodeExport& node) {
  node.require(node.dtype() == at::kBool, "bits of integers");
  logical_not(node);
}

/// a + alpha * b, or with a and b exchanged.
void sum(NodeExport& node, const char* op, size_t first, size_t second) {
  const at::ScalarType dtype = node.dtype();
  std::string b = node.operand(second, dtype);
  if (node.number(2) != 1) b = node.add("Mul", {b, node.scalar(node.number(2), dtype)});
  if (dtype == at::kBool) op = "Or";
  node.give(node.add(op, {node.operand(first, dtype), b}));
}
void add(NodeExport& node) { sum(node, "Add", 0, 1); }
void sub(NodeExport& node) { sum(node, "Sub", 0, 1); }
void rsub(NodeExport& node) { sum(node, "Sub", 1, 0); }

void mul(NodeExport& node) {
  const at::ScalarType dtype = node.dtype();
  node.give(node.add(dtype == at::kBool ? "And" : "Mul",
                     {node.operand(0, dtype), node.operand(1, dtype)}));
}

void div(NodeExport& node) {
  const at::ScalarType dtype = node.dtype();
  if (node.node().arguments.size() == 2 || node.is_none(2)) {
    node.give(node.add("Div", {node.operand(0, dtype), node.operand(1, dtype)}));
    return;
  }
  const bool integers = c10::isIntegralType(dtype, true);
  const bool floor = node.text(2) == "floor";
  const at::ScalarType in = integers && floor ? at::kDouble : dtype;
  std::string y = node.add("Div", {node.operand(0, in), node.operand(1, in)});
  if (floor) {
    y = node.add("Floor", {y});
  } else if (!integers) {
    y = node.add("Mul", {node.add("Sign", {y}), node.add("Floor", {node.add("Abs", {y})})});
  }
  node.give(node.cast(y, in, dtype));
}

void floor_divide(NodeExport& node) {
  const at::ScalarType in = c10::isIntegralType(node.dtype(), true) ? at::kDouble : node.dtype();
  const std::string y = node.add("Div", {node.operand(0, in), node.operand(1, in)});
  node.give(node.cast(node.add("Floor", {y}), in, node.dtype()));
}

void remainder(NodeExport& node) {
  const at::ScalarType dtype = node.dtype();
  const std::string a = node.operand(0, dtype), b = node.operand(1, dtype);
  if (c10::isIntegralType(dtype, true)) return node.give(node.add("Mod", {a, b}));
  const std::string whole = node.add("Floor", {node.add("Div", {a, b})});
  node.give(node.add("Sub", {a, node.add("Mul", {whole, b})}));
}

void fmod(NodeExport& node) {
  const at::ScalarType dtype = node.dtype();
  node.give(node.add("Mod", {node.operand(0, dtype), node.operand(1, dtype)},
                     {attribute("fmod", int64_t{1})}));
}

void where(NodeExport& node) {
  node.give(node.add("Where", {node.tensor(0, at::kBool), node.operand(1, node.dtype()),
                               node.operand(2, node.dtype())}));
}

void masked_fill(NodeExport& node) {
  node.give(node.add("Where", {node.tensor(1, at::kBool), node.operand(2, node.dtype()),
                               node.tensor(0, node.dtype())}));
}

void clamp(NodeExport& node) {
  const auto bound = [&](size_t i) {
    return node.is_none(i) ? std::string() : node.operand(i, node.dtype());
  };
  std::string y = node.tensor(0, node.dtype());
  const std::string low = bound(1), high = bound(2);
  if (!low.empty()) y = node.add("Max", {y, low});
  if (!high.empty()) y = node.add("Min", {y, high});
  node.give(y);
}

void leaky_relu(NodeExport& node) {
  node.give(node.add("LeakyRelu", {node.tensor(0)}, {attribute("alpha", node.number(1))}));
}

/// x above 0, and `below` elsewhere.
std::string above_zero(NodeExport& node, const std::string& x, const std::string& below) {
  return node.add("Where", {node.add("Greater", {x, node.scalar(0.0, node.dtype())}), x, below});
}

void elu(NodeExport& node) {
  const std::string x = node.tensor(0);
  const auto times = [&](const std::string& y, double factor) {
    return factor == 1 ? y : node.add("Mul", {y, node.scalar(factor, node.dtype())});
  };
  std::string y;
  if (node.number(3) == 1) {
    y = node.add("Elu", {x}, {attribute("alpha", node.number(1))});
  } else {
    const std::string power = node.add("Exp", {times(x, node.number(3))});
    y = above_zero(node, x,
                   times(node.add("Sub", {power, node.scalar(1.0, node.dtype())}), node.number(1)));
  }
  node.give(times(y, node.number(2)));
}

void celu(NodeExport& node) {
  node.give(node.add("Celu", {node.tensor(0)}, {attribute("alpha", node.number(1))}));
}
void selu(NodeExport& node) { node.give(node.add("Selu", {node.tensor(0)})); }

std::string softplus_of(NodeExport& node, const std::string& x) {
  return node.add("Softplus", {x});
}

void softplus(NodeExport& node) {
  const double beta = node.number(1);
  if (beta == 1) return node.give(softplus_of(node, node.tensor(0)));
  const std::string factor = node.scalar(beta, node.dtype());
  node.give(
      node.add("Div", {softplus_of(node, node.add("Mul", {node.tensor(0), factor})), factor}));
}

void log_sigmoid(NodeExport& node) {
  node.give(node.add("Neg", {softplus_of(node, node.add("Neg", {node.tensor(0)}))}));
}

void silu(NodeExport& node) {
  node.give(node.add("Mul", {node.tensor(0), node.add("Sigmoid", {node.tensor(0)})}));
}

void mish(NodeExport& node) {
  const std::string x = node.tensor(0);
  node.give(node.add("Mul", {x, node.add("Tanh", {softplus_of(node, x)})}));
}

void hardsigmoid(NodeExport& node) {
  node.give(node.add("HardSigmoid", {node.tensor(0)},
                     {attribute("alpha", 1.0 / 6), attribute("beta", 0.5)}));
}

void gelu(NodeExport& node) {
  const std::string x = node.tensor(0);
  const auto number = [&](double value) { return node.scalar(value, node.dtype()); };
  std::string inner;
  if (node.text(1) == "tanh") {
    const std::string cube = node.add("Mul", {node.add("Mul", {x, x}), x});
    const std::string sum = node.add("Add", {x, node.add("Mul", {cube, number(0.044715)})});
    inner = node.add("Tanh", {node.add("Mul", {sum, number(std::sqrt(2 / std::numbers::pi))})});
  } else {
    inner = node.add("Erf", {node.add("Mul", {x, number(std::numbers::sqrt2 / 2)})});
  }
  const std::string half = node.add("Mul", {x, number(0.5)});
  node.give(node.add("Mul", {half, node.add("Add", {inner, number(1)})}));
}

void rsqrt(NodeExport& node) {
  node.give(node.add("Reciprocal", {node.add("Sqrt", {node.tensor(0, node.dtype())})}));
}
void log1p(NodeExport& node) {
  node.give(node.add(
      "Log", {node.add("Add", {node.tensor(0, node.dtype()), node.scalar(1, node.dtype())})}));
}
void expm1(NodeExport& node) {
  const std::string power = node.add("Exp", {node.tensor(0, node.dtype())});
  node.give(node.add("Sub", {power, node.scalar(1, node.dtype())}));
}
void exp2(NodeExport& node) {
  node.give(node.add("Pow", {node.scalar(2, node.dtype()), node.tensor(0, node.dtype())}));
}

/// A logarithm by the natural one.
template <int base>
void logarithm(NodeExport& node) {
  const std::string natural = node.add("Log", {node.tensor(0, node.dtype())});
  node.give(node.add("Mul", {natural, node.scalar(1 / std::log(base), node.dtype())}));
}

void threshold(NodeExport& node) {
  const std::string x = node.tensor(0);
  node.give(node.add("Where", {node.add("Greater", {x, node.scalar(node.number(1), node.dtype())}),
                               x, node.scalar(node.number(2), node.dtype())}));
}

/// Elements nearer to 0 than a bound are 0; with `soft`, others are that much nearer to 0.
void shrink(NodeExport& node, bool soft) {
  node.give(node.add(
      "Shrink", {node.tensor(0)},
      {attribute("lambd", node.number(1)), attribute("bias", soft ? node.number(1) : 0.0)}));
}
void softshrink(NodeExport& node) { shrink(node, true); }
void hardshrink(NodeExport& node) { shrink(node, false); }

void prelu(NodeExport& node) { node.give(node.add("PRelu", {node.tensor(0), node.tensor(1)})); }

void to_dtype(NodeExport& node) { node.give(node.tensor(0, node.dtype())); }
void same(NodeExport& node) { node.give(node.tensor(0)); }

// Names of ONNX operators, for templates.
constexpr const char *kAbs = "Abs", *kAcos = "Acos", *kAcosh = "Acosh", *kAsin = "Asin",
                     *kAsinh = "Asinh", *kAtan = "Atan", *kAtanh = "Atanh", *kCeil = "Ceil",
                     *kCos = "Cos", *kCosh = "Cosh", *kErf = "Erf", *kExp = "Exp",
                     *kFloor = "Floor", *kHardSwish = "HardSwish", *kIsInf = "IsInf",
                     *kIsNaN = "IsNaN", *kLog = "Log", *kNeg = "Neg", *kReciprocal = "Reciprocal",
                     *kRelu = "Relu", *kRound = "Round", *kSigmoid = "Sigmoid", *kSign = "Sign",
                     *kSin = "Sin", *kSinh = "Sinh", *kSqrt = "Sqrt", *kTan = "Tan",
                     *kTanh = "Tanh", *kPow = "Pow", *kMax = "Max", *kMin = "Min",
                     *kEqual = "Equal", *kLess = "Less", *kLessOrEqual = "LessOrEqual",
                     *kGreater = "Greater", *kGreaterOrEqual = "GreaterOrEqual", *kAnd = "And",
                     *kOr = "Or", *kXor = "Xor";

}  // namespace

const Rules& elementwise_rules() {
  static const Rules rules = {{"aten::_conj", same},
                              {"aten::_prelu_kernel", prelu},
                              {"aten::_to_copy", to_dtype},
                              {"aten::abs", unary<kAbs>},
                              {"aten::acos", unary<kAcos>},
                              {"aten::acosh", unary<kAcosh>},
                              {"aten::add", add},
                              {"aten::alias", same},
                              {"aten::asin", unary<kAsin>},
                              {"aten::asinh", unary<kAsinh>},
                              {"aten::atan", unary<kAtan>},
                              {"aten::atanh", unary<kAtanh>},
                              {"aten::bitwise_and", bitwise<kAnd>},
                              {"aten::bitwise_not", bitwise_not},
                              {"aten::bitwise_or", bitwise<kOr>},
                              {"aten::bitwise_xor", bitwise<kXor>},
                              {"aten::ceil", unary<kCeil>},
                              {"aten::celu", celu},
                              {"aten::clamp", clamp},
                              {"aten::clamp_max", binary<kMin>},
                              {"aten::clamp_min", binary<kMax>},
                              {"aten::clone", same},
                              {"aten::cos", unary<kCos>},
                              {"aten::cosh", unary<kCosh>},
                              {"aten::detach", same},
                              {"aten::div", div},
                              {"aten::elu", elu},
                              {"aten::eq", comparison<kEqual>},
                              {"aten::erf", unary<kErf>},
                              {"aten::exp", unary<kExp>},
                              {"aten::exp2", exp2},
                              {"aten::expm1", expm1},
                              {"aten::floor", unary<kFloor>},
                              {"aten::floor_divide", floor_divide},
                              {"aten::fmod", fmod},
                              {"aten::ge", comparison<kGreaterOrEqual>},
                              {"aten::gelu", gelu},
                              {"aten::gt", comparison<kGreater>},
                              {"aten::hardshrink", hardshrink},
                              {"aten::hardsigmoid", hardsigmoid},
                              {"aten::hardswish", unary<kHardSwish>},
                              {"aten::hardtanh", clamp},
                              {"aten::isinf", predicate<kIsInf>},
                              {"aten::isnan", predicate<kIsNaN>},
                              {"aten::le", comparison<kLessOrEqual>},
                              {"aten::leaky_relu", leaky_relu},
                              {"aten::lift_fresh", same},
                              {"aten::log", unary<kLog>},
                              {"aten::log10", logarithm<10>},
                              {"aten::log1p", log1p},
                              {"aten::log2", logarithm<2>},
                              {"aten::log_sigmoid_forward", log_sigmoid},
                              {"aten::logical_and", logical<kAnd>},
                              {"aten::logical_not", logical_not},
                              {"aten::logical_or", logical<kOr>},
                              {"aten::logical_xor", logical<kXor>},
                              {"aten::lt", comparison<kLess>},
                              {"aten::masked_fill", masked_fill},
                              {"aten::maximum", binary<kMax>},
                              {"aten::minimum", binary<kMin>},
                              {"aten::mish", mish},
                              {"aten::mul", mul},
                              {"aten::ne", not_equal},
                              {"aten::neg", unary<kNeg>},
                              {"aten::pow", binary<kPow>},
                              {"aten::reciprocal", unary<kReciprocal>},
                              {"aten::relu", unary<kRelu>},
                              {"aten::remainder", remainder},
                              {"aten::round", unary<kRound>},
                              {"aten::rsqrt", rsqrt},
                              {"aten::rsub", rsub},
                              {"aten::selu", selu},
                              {"aten::sigmoid", unary<kSigmoid>},
                              {"aten::sign", unary<kSign>},
                              {"aten::silu", silu},
                              {"aten::sin", unary<kSin>},
                              {"aten::sinh", unary<kSinh>},
                              {"aten::softplus", softplus},
                              {"aten::softshrink", softshrink},
                              {"aten::sqrt", unary<kSqrt>},
                              {"aten::sub", sub},
                              {"aten::tan", unary<kTan>},
                              {"aten::tanh", unary<kTanh>},
                              {"aten::threshold", threshold},
                              {"aten::where", where}};
  return rules;
}

}  // namespace strata::graph::onnx
