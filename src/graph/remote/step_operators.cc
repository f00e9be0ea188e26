// The operators that a server runs for a client, which may be anyone with a certificate: an operator is
// here if no argument makes it read or write beyond its tensors. Most check that themselves and have
// kernels for the meta device that check the same; for the others there is a rule (call_rules.h).
#include "graph/remote/step_operators.h"

#include <algorithm>
#include <set>

#include "graph/untrusted/call_rules.h"

namespace strata::graph::remote {
namespace {

/// Element by element, and the same in place.
const std::set<std::string_view>& elementwise_operators() {
  static const std::set<std::string_view> names = {
      "acos",       "acosh",       "add",        "addcdiv",     "addcmul",     "asin",
      "asinh",      "atan",        "atan2",      "atanh",       "bitwise_and", "bitwise_not",
      "bitwise_or", "bitwise_xor", "ceil",       "clamp",       "clamp_max",   "clamp_min",
      "copysign",   "cos",         "cosh",       "div",         "elu",         "eq",
      "erf",        "erfc",        "erfinv",     "exp",         "exp2",        "expm1",
      "floor",      "fmax",        "fmin",       "fmod",        "frac",        "ge",
      "gelu",       "gt",          "hardshrink", "hardsigmoid", "heaviside",   "hypot",
      "isneginf",   "isposinf",    "le",         "leaky_relu",  "lerp",        "log",
      "log10",      "log1p",       "log2",       "logaddexp",   "logaddexp2",  "lt",
      "maximum",    "minimum",     "mish",       "mul",         "ne",          "neg",
      "pow",        "reciprocal",  "remainder",  "round",       "rsqrt",       "rsub",
      "sgn",        "sigmoid",     "sign",       "signbit",     "silu",        "sin",
      "sinc",       "sinh",        "softplus",   "softshrink",  "sqrt",        "sub",
      "tan",        "tanh",        "threshold",  "trunc",       "xlogy"};
  return names;
}

/// Whose kernels for the meta device check all that they need.
const std::set<std::string_view>& checked_operators() {
  static const std::set<std::string_view> names = {
      // Backwards, element by element or of a structured operator.
      "_log_softmax", "_log_softmax_backward_data", "_softmax", "_softmax_backward_data",
      "elu_backward", "gelu_backward", "glu", "hardshrink_backward", "hardsigmoid_backward",
      "leaky_relu_backward", "mish_backward", "nll_loss_forward", "sigmoid_backward",
      "silu_backward", "softplus_backward", "softshrink_backward", "tanh_backward",
      "threshold_backward",
      // Pooling and padding.
      "adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool2d", "avg_pool2d_backward",
      "avg_pool3d", "avg_pool3d_backward", "max_pool2d_with_indices", "reflection_pad1d",
      "reflection_pad3d", "replication_pad1d", "replication_pad2d", "replication_pad3d",
      // Shapes.
      "_reshape_alias", "_to_copy", "_unsafe_view", "alias", "as_strided", "cat", "clone",
      "constant_pad_nd", "copy_", "detach", "expand", "fill_", "lift_fresh", "permute", "repeat",
      "select", "select_backward", "slice", "slice_backward", "split", "split_with_sizes",
      "squeeze", "stack", "t", "transpose", "tril", "triu", "unbind", "unsafe_split",
      "unsafe_split_with_sizes", "unsqueeze", "view", "zero_",
      // New tensors.
      "arange", "full", "full_like", "new_full", "new_ones", "new_zeros", "ones", "ones_like",
      "scalar_tensor", "zeros", "zeros_like",
      // Sums and the like.
      "all", "amax", "amin", "any", "argmax", "argmin", "cumprod", "cumsum", "linalg_vector_norm",
      "mean", "norm", "sum",
      // Products.
      "addmm", "addmv", "baddbmm", "bmm", "mm", "mv",
      // By index; each is checked.
      "gather", "index", "index_add", "index_add_", "index_copy", "index_copy_", "scatter",
      "scatter_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_", "sort",
      "topk",
      // Random numbers, of the replica's stream.
      "bernoulli_", "exponential_", "normal_", "rand", "rand_like", "randint", "randn",
      "randn_like", "random_", "uniform_"};
  return names;
}

const std::set<std::string_view>& unfilled_operators() {
  static const std::set<std::string_view> names = {"empty", "empty_like", "empty_strided",
                                                   "new_empty"};
  return names;
}

}  // namespace

Admission admission_of(std::string_view name) {
  constexpr std::string_view kAten = "aten::";
  if (untrusted::find_call_rule(name) != nullptr) return Admission::kByRule;
  if (!name.starts_with(kAten)) return Admission::kRefused;
  std::string_view base = name.substr(kAten.size());
  const std::string_view overload = base.substr(std::min(base.find('.'), base.size()));
  base = base.substr(0, base.find('.'));
  // Those give a tensor that was given another size.
  if (overload == ".out" || overload.ends_with("_out") || overload.ends_with(".names") ||
      overload == ".dtype") {
    return Admission::kRefused;
  }
  if (unfilled_operators().contains(base)) return Admission::kZeroed;
  if (checked_operators().contains(base)) return Admission::kByMeta;
  if (base.ends_with('_')) base.remove_suffix(1);
  return elementwise_operators().contains(base) ? Admission::kByMeta : Admission::kRefused;
}

}  // namespace strata::graph::remote
