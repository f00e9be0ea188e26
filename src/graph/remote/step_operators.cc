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
      "abs",        "add",         "addcdiv",     "addcmul",    "bitwise_and", "bitwise_not",
      "bitwise_or", "bitwise_xor", "ceil",        "clamp",      "clamp_max",   "clamp_min",
      "cos",        "div",         "elu",         "eq",         "erf",         "exp",
      "exp2",       "expm1",       "floor",       "fmod",       "ge",          "gelu",
      "gt",         "hardsigmoid", "hardswish",   "hardtanh",   "isinf",       "isnan",
      "le",         "leaky_relu",  "lerp",        "log",        "log10",       "log1p",
      "log2",       "logical_and", "logical_not", "logical_or", "logical_xor", "lt",
      "maximum",    "minimum",     "mish",        "mul",        "ne",          "neg",
      "pow",        "reciprocal",  "remainder",   "round",      "rsqrt",       "rsub",
      "sigmoid",    "sign",        "silu",        "sin",        "softplus",    "sqrt",
      "sub",        "tan",         "tanh",        "threshold",  "where"};
  return names;
}

/// Whose kernels for the meta device check all that they need.
const std::set<std::string_view>& checked_operators() {
  static const std::set<std::string_view> names = {
      // Backwards, element by element or of a structured operator.
      "_log_softmax", "_log_softmax_backward_data", "_softmax", "_softmax_backward_data",
      "elu_backward", "gelu_backward", "hardsigmoid_backward", "hardswish_backward",
      "hardtanh_backward", "leaky_relu_backward", "mish_backward", "sigmoid_backward",
      "silu_backward", "softplus_backward", "tanh_backward", "threshold_backward",
      "max_pool2d_with_indices", "avg_pool2d", "avg_pool2d_backward", "nll_loss_forward",
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
      "all", "amax", "amin", "any", "argmax", "argmin", "cumsum", "linalg_vector_norm", "logsumexp",
      "mean", "prod", "std", "sum", "var",
      // Products.
      "addmm", "addmv", "baddbmm", "bmm", "dot", "mm", "mv",
      // By index; each is checked.
      "gather", "index_select", "scatter_add",
      // Random numbers, of the replica's stream.
      "bernoulli_", "native_dropout_backward", "normal_", "rand_like", "randn_like", "uniform_"};
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
  if (overload == ".out" || overload.ends_with("_out") || overload.ends_with(".names")) {
    return Admission::kRefused;
  }
  if (unfilled_operators().contains(base)) return Admission::kZeroed;
  if (checked_operators().contains(base)) return Admission::kByMeta;
  if (base.ends_with('_')) base.remove_suffix(1);
  return elementwise_operators().contains(base) ? Admission::kByMeta : Admission::kRefused;
}

}  // namespace strata::graph::remote
