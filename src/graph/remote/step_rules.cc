// The operators that a server runs for a client, which may be anyone with a certificate: an operator is
// here if no argument makes it read or write beyond its tensors. Most check that themselves, before
// they compute, and have kernels for the meta device that check the same; for the others there is a
// rule. Where an operator trusts the elements of a tensor (positions of maxima, labels in a
// backward), the rule demands that they come from the operator that makes or has checked them, in
// the same step, and that no node writes them.
#include "graph/remote/step_rules.h"

#include <algorithm>
#include <functional>
#include <map>

#include "strata/core/str_cat.h"

namespace strata::graph::remote {
namespace {

using Results = std::optional<std::vector<std::optional<ExpectedResult>>>;

bool is_one_of(at::ScalarType dtype, std::initializer_list<at::ScalarType> known) {
  return std::ranges::find(known, dtype) != known.end();
}
bool is_real(const Value& value) {
  return is_one_of(value.dtype, {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf});
}
bool is_single_or_double(const Value& value) {
  return is_one_of(value.dtype, {at::kFloat, at::kDouble});
}
ExpectedResult like(const Value& value) { return {value.dtype, value.sizes}; }

/// Absent, or one number for each of `count`.
bool has_one_each(const Value* value, int64_t count) {
  return value == nullptr || value->sizes == std::vector<int64_t>{count};
}
std::vector<int64_t> without_last(std::vector<int64_t> sizes) {
  if (!sizes.empty()) sizes.pop_back();
  return sizes;
}
bool is_contiguous(const Value& value) {
  int64_t expected = 1;
  for (size_t d = value.sizes.size(); d-- > 0;) {
    if (value.sizes[d] != 1 && value.strides[d] != expected) return false;
    expected *= value.sizes[d];
  }
  return true;
}

Results refused(std::string& why, std::string_view what) {
  why = what;
  return std::nullopt;
}

/// No node writes the memory of `id`, and no tensor of the session's is in it.
bool is_never_written(const Graph& graph, ValueId id) {
  const ValueId memory = graph.values[static_cast<size_t>(id)].memory;
  const ValueKind kind = graph.values[static_cast<size_t>(memory)].kind;
  if (kind != ValueKind::kInput && kind != ValueKind::kResult) return false;
  return std::ranges::none_of(graph.nodes, [&](const Node& node) {
    return std::ranges::any_of(node.written, [&](ValueId written) {
      return written != kNoValue && graph.values[static_cast<size_t>(written)].memory == memory;
    });
  });
}

/// The node before `call` that `suits`; its elements are trusted from then on.
bool comes_after(const CallView& call, std::string_view name,
                 const std::function<bool(const Node&)>& suits) {
  const std::vector<Node>& nodes = call.graph().nodes;
  for (size_t n = 0; n < call.number(); ++n) {
    if (nodes[n].name == name && !nodes[n].host && suits(nodes[n])) return true;
  }
  return false;
}

// --- Convolutions

/// The sizes of a convolution's result.
std::optional<std::vector<int64_t>> convolved(const CallView& call, const Value& input,
                                              const Value& weight, size_t first, std::string& why) {
  constexpr int64_t kLargest = 1 << 20;
  const size_t dimensions = input.sizes.size();
  const int64_t groups = call.given(first + 5).toInt();
  const auto list = [&](size_t argument) {
    std::vector<int64_t> numbers = call.integers(argument);
    if (numbers.size() == 1) numbers.resize(dimensions - 2, numbers[0]);
    return numbers;
  };
  why = "sizes that do not fit each other";
  if (dimensions < 3 || dimensions > 5 || weight.sizes.size() != dimensions ||
      call.flag(first + 3) || groups < 1 || input.dtype != weight.dtype || !is_real(input)) {
    return std::nullopt;
  }
  const std::vector<int64_t> stride = list(first), padding = list(first + 1),
                             dilation = list(first + 2), more = call.integers(first + 4);
  if (stride.size() != dimensions - 2 || padding.size() != dimensions - 2 ||
      dilation.size() != dimensions - 2 ||
      std::ranges::any_of(more, [](int64_t each) { return each != 0; })) {
    return std::nullopt;
  }
  const int64_t channels = weight.sizes[0];
  if (channels < 1 || channels % groups != 0 || weight.sizes[1] < 1 || weight.sizes[1] > kLargest ||
      groups > kLargest || input.sizes[1] != weight.sizes[1] * groups) {
    return std::nullopt;
  }
  std::vector<int64_t> sizes = {input.sizes[0], channels};
  for (size_t d = 2; d < dimensions; ++d) {
    const int64_t s = stride[d - 2], p = padding[d - 2], r = dilation[d - 2];
    for (const int64_t each : {s, p, r, input.sizes[d], weight.sizes[d]}) {
      if (each < 0 || each > kLargest) return std::nullopt;
    }
    if (s < 1 || r < 1 || weight.sizes[d] < 1) return std::nullopt;
    const int64_t room = input.sizes[d] + 2 * p - r * (weight.sizes[d] - 1) - 1;
    if (room < 0) return std::nullopt;
    sizes.push_back(room / s + 1);
  }
  return sizes;
}

// convolution(input, weight, bias?, stride, padding, dilation, transposed, output_padding, groups)
Results convolution(const CallView& call, std::string& why) {
  const Value& input = *call.tensor(0);
  const Value& weight = *call.tensor(1);
  const Value* const bias = call.tensor(2);
  auto sizes = convolved(call, input, weight, 3, why);
  if (!sizes) return std::nullopt;
  if (!has_one_each(bias, weight.sizes[0]) || (bias != nullptr && bias->dtype != input.dtype)) {
    return refused(why, "a bias that does not fit");
  }
  return {{ExpectedResult{input.dtype, *std::move(sizes)}}};
}

// convolution_backward(gradient, input, weight, bias_sizes?, stride, padding, dilation, transposed,
//                      output_padding, groups, output_mask)
Results convolution_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& input = *call.tensor(1);
  const Value& weight = *call.tensor(2);
  const auto sizes = convolved(call, input, weight, 4, why);
  if (!sizes) return std::nullopt;
  const c10::List<bool> mask = call.given(10).toBoolList();
  const bool bias_fits =
      call.given(3).isNone() || call.integers(3) == std::vector<int64_t>{weight.sizes[0]};
  if (gradient.sizes != *sizes || gradient.dtype != input.dtype || mask.size() != 3 || !bias_fits ||
      (mask.get(2) && call.given(3).isNone())) {
    return refused(why, "a gradient that does not fit");
  }
  std::vector<std::optional<ExpectedResult>> results(3);
  if (mask.get(0)) results[0] = like(input);
  if (mask.get(1)) results[1] = like(weight);
  if (mask.get(2)) results[2] = ExpectedResult{input.dtype, {weight.sizes[0]}};
  return results;
}

// --- Normalizations

// native_batch_norm(input, weight?, bias?, mean?, variance?, training, momentum, eps)
Results batch_norm(const CallView& call, std::string& why) {
  const Value& input = *call.tensor(0);
  if (input.sizes.size() < 2 || !is_real(input)) return refused(why, "an input without channels");
  const int64_t channels = input.sizes[1];
  for (size_t i = 1; i <= 4; ++i) {
    const Value* const value = call.tensor(i);
    if (!has_one_each(value, channels) || (value != nullptr && value->dtype != input.dtype)) {
      return refused(why, "a parameter or a statistic that is not one number a channel");
    }
  }
  if (!call.flag(5) && (call.tensor(3) == nullptr || call.tensor(4) == nullptr)) {
    return refused(why, "no statistics");
  }
  const ExpectedResult statistic{input.dtype == at::kDouble ? at::kDouble : at::kFloat, {channels}};
  return {{like(input), statistic, statistic}};
}

// native_batch_norm_backward(gradient, input, weight?, mean?, variance?, save_mean?, save_invstd?,
//                            train, eps, output_mask)
Results batch_norm_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& input = *call.tensor(1);
  if (input.sizes.size() < 2 || gradient.sizes != input.sizes || gradient.dtype != input.dtype ||
      !is_real(input)) {
    return refused(why, "a gradient that does not fit");
  }
  const int64_t channels = input.sizes[1];
  const bool train = call.flag(7);
  for (size_t i = 2; i <= 6; ++i) {
    const Value* const value = call.tensor(i);
    const bool saved = i >= 5;
    if (value == nullptr) {
      if (i > 2 && saved == train) return refused(why, "no statistics");
      continue;
    }
    if (saved && !train) continue;  // not read
    if (!has_one_each(value, channels) || value->dtype != input.dtype) {
      return refused(why, "a parameter or a statistic that is not one number a channel");
    }
  }
  const c10::List<bool> mask = call.given(9).toBoolList();
  if (mask.size() != 3) return refused(why, "a mask of another length");
  std::vector<std::optional<ExpectedResult>> results(3);
  const ExpectedResult parameter{input.dtype, {channels}};
  if (mask.get(0)) results[0] = like(input);
  if (mask.get(1)) results[1] = parameter;
  if (mask.get(2)) results[2] = parameter;
  return results;
}

/// The sizes of a layer normalization's statistics; nothing: `normalized` is no end of the input's.
std::optional<std::vector<int64_t>> layer_statistics(const Value& input,
                                                     const std::vector<int64_t>& normalized) {
  if (normalized.empty() || normalized.size() > input.sizes.size()) return std::nullopt;
  const size_t outer = input.sizes.size() - normalized.size();
  std::vector<int64_t> sizes = input.sizes;
  for (size_t d = 0; d < normalized.size(); ++d) {
    if (input.sizes[outer + d] != normalized[d]) return std::nullopt;
    sizes[outer + d] = 1;
  }
  return sizes;
}

// native_layer_norm(input, normalized, weight?, bias?, eps)
Results layer_norm(const CallView& call, std::string& why) {
  const Value& input = *call.tensor(0);
  const std::vector<int64_t> normalized = call.integers(1);
  const auto statistics = layer_statistics(input, normalized);
  if (!statistics || !is_single_or_double(input)) {
    return refused(why, "sizes that do not fit each other");
  }
  for (const Value* const value : {call.tensor(2), call.tensor(3)}) {
    if (value != nullptr && (value->sizes != normalized || value->dtype != input.dtype)) {
      return refused(why, "a parameter that does not fit");
    }
  }
  const ExpectedResult statistic{input.dtype, *statistics};
  return {{like(input), statistic, statistic}};
}

// native_layer_norm_backward(gradient, input, normalized, mean, rstd, weight?, bias?, output_mask)
Results layer_norm_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& input = *call.tensor(1);
  const std::vector<int64_t> normalized = call.integers(2);
  const auto statistics = layer_statistics(input, normalized);
  const c10::List<bool> mask = call.given(7).toBoolList();
  if (!statistics || !is_single_or_double(input) || gradient.sizes != input.sizes ||
      gradient.dtype != input.dtype || mask.size() != 3) {
    return refused(why, "a gradient that does not fit");
  }
  for (const Value* const value : {call.tensor(3), call.tensor(4)}) {
    if (value->sizes != *statistics || value->dtype != input.dtype || !is_contiguous(*value)) {
      return refused(why, "statistics that do not fit");
    }
  }
  for (size_t i = 5; i <= 6; ++i) {
    const Value* const value = call.tensor(i);
    if (value != nullptr && (value->sizes != normalized || value->dtype != input.dtype)) {
      return refused(why, "a parameter that does not fit");
    }
  }
  std::vector<std::optional<ExpectedResult>> results(3);
  if (mask.get(0)) results[0] = like(input);
  if (mask.get(1)) results[1] = ExpectedResult{input.dtype, normalized};
  if (mask.get(2)) results[2] = ExpectedResult{input.dtype, normalized};
  return results;
}

// --- Embeddings

// embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse): checks each index.
Results embedding(const CallView& call, std::string& why) {
  const Value& weight = *call.tensor(0);
  const Value& indices = *call.tensor(1);
  if (weight.sizes.size() != 2 || !is_real(weight) ||
      !is_one_of(indices.dtype, {at::kLong, at::kInt})) {
    return refused(why, "no table of rows, or indices of another dtype");
  }
  std::vector<int64_t> sizes = indices.sizes;
  sizes.push_back(weight.sizes[1]);
  return {{ExpectedResult{weight.dtype, std::move(sizes)}}};
}

// embedding_dense_backward(gradient, indices, num_weights, padding_idx, scale_grad_by_freq)
Results embedding_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& indices = *call.tensor(1);
  const int64_t rows = call.given(2).toInt();
  if (gradient.sizes.empty() || without_last(gradient.sizes) != indices.sizes || rows < 0 ||
      call.flag(4) || !is_real(gradient)) {
    return refused(why, "a gradient that does not fit");
  }
  const bool checked = is_never_written(call.graph(), call.id(1)) &&
                       comes_after(call, "aten::embedding", [&](const Node& node) {
                         const Value& table =
                             call.graph().values[static_cast<size_t>(node.arguments[0].values[0])];
                         return node.arguments[1].values[0] == call.id(1) && table.sizes[0] == rows;
                       });
  if (!checked) return refused(why, "indices that no embedding before it has read");
  return {{ExpectedResult{gradient.dtype, {rows, gradient.sizes.back()}}}};
}

// --- Pooling

// max_pool2d_with_indices_backward(gradient, self, kernel, stride, padding, dilation, ceil, indices)
Results max_pool_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& input = *call.tensor(1);
  const Value& indices = *call.tensor(7);
  if (gradient.sizes != indices.sizes || gradient.dtype != input.dtype || !is_real(input)) {
    return refused(why, "a gradient that does not fit");
  }
  const bool checked = is_never_written(call.graph(), call.id(7)) &&
                       comes_after(call, "aten::max_pool2d_with_indices", [&](const Node& node) {
                         const ValueId pooled = node.arguments[0].values[0];
                         bool same =
                             node.results[1].values[0] == call.id(7) &&
                             call.graph().values[static_cast<size_t>(pooled)].sizes == input.sizes;
                         for (size_t i = 1; i <= 5; ++i)
                           same = same && node.arguments[i].number == call.given(i + 1);
                         return same;
                       });
  if (!checked) return refused(why, "positions that no max_pool2d_with_indices before it has made");
  return {{like(input)}};
}

// --- Losses

// nll_loss_backward(gradient, self, target, weight?, reduction, ignore_index, total_weight)
Results nll_loss_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& input = *call.tensor(1);
  const Value* const total = call.tensor(6);
  const int64_t reduction = call.given(4).toInt();
  const size_t dimensions = input.sizes.size();
  if (dimensions < 1 || dimensions > 2 || !is_single_or_double(input) ||
      gradient.dtype != input.dtype || !total->sizes.empty() || total->dtype != input.dtype ||
      call.tensor(3) != nullptr || reduction < 0 || reduction > 2) {
    return refused(why, "arguments that do not fit each other");
  }
  const bool each = reduction == 0 && dimensions == 2;
  if (gradient.sizes != (each ? std::vector<int64_t>{input.sizes[0]} : std::vector<int64_t>{})) {
    return refused(why, "a gradient that does not fit");
  }
  const bool checked =
      is_never_written(call.graph(), call.id(2)) &&
      comes_after(call, "aten::nll_loss_forward", [&](const Node& node) {
        const Value& before = call.graph().values[static_cast<size_t>(node.arguments[0].values[0])];
        return node.arguments[1].values[0] == call.id(2) && before.sizes == input.sizes &&
               node.arguments[4].number == call.given(5);
      });
  if (!checked) return refused(why, "labels that no nll_loss_forward before it has read");
  return {{like(input)}};
}

// strata::softmax_cross_entropy(logits, labels, ignore_class?, wants_difference): checks each label.
Results cross_entropy(const CallView& call, std::string& why) {
  const Value& logits = *call.tensor(0);
  const Value& labels = *call.tensor(1);
  if (logits.sizes.empty() || without_last(logits.sizes) != labels.sizes ||
      !is_single_or_double(logits) || logits.sizes.back() < 1 ||
      !is_one_of(labels.dtype, {at::kLong, at::kInt, at::kByte})) {
    return refused(why, "logits and labels that do not fit each other");
  }
  ExpectedResult difference{logits.dtype, {0}};
  if (call.flag(3)) difference.sizes = logits.sizes;
  return {{ExpectedResult{logits.dtype, labels.sizes}, std::move(difference)}};
}

// strata::scale_rows(difference, scale), and in place
Results scale_rows(const CallView& call, std::string& why) {
  const Value& rows = *call.tensor(0);
  const Value& scale = *call.tensor(1);
  if (rows.sizes.empty() || without_last(rows.sizes) != scale.sizes || !is_contiguous(rows) ||
      rows.dtype != scale.dtype || !is_single_or_double(rows)) {
    return refused(why, "rows and factors that do not fit each other");
  }
  return {{like(rows)}};
}

// strata::addmm_backward(gradient, a?, b?, b_by_columns, wants_bias)
Results addmm_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  for (const Value* const each : {&gradient, call.tensor(1), call.tensor(2)}) {
    if (each != nullptr && (each->sizes.size() != 2 || each->dtype != at::kFloat)) {
      return refused(why, "what is no matrix of floats");
    }
  }
  std::vector<std::optional<ExpectedResult>> results(3);
  if (call.flag(4)) results[0] = ExpectedResult{at::kFloat, {gradient.sizes[1]}};
  if (const Value* const b = call.tensor(2)) {
    if (b->sizes[1] != gradient.sizes[1]) return refused(why, "matrices that do not fit");
    results[1] = ExpectedResult{at::kFloat, {gradient.sizes[0], b->sizes[0]}};
  }
  if (const Value* const a = call.tensor(1)) {
    if (a->sizes[0] != gradient.sizes[0]) return refused(why, "matrices that do not fit");
    results[2] = ExpectedResult{at::kFloat, {a->sizes[1], gradient.sizes[1]}};
  }
  return results;
}

// strata::scaled_sum(values, divisor)
Results scaled_sum(const CallView& call, std::string& why) {
  const Value& values = *call.tensor(0);
  if (!is_single_or_double(values)) return refused(why, "values of another dtype");
  return {{ExpectedResult{values.dtype, {}}}};
}

// strata::scaled_sum_backward(gradient, sizes, divisor): one number, expanded
Results scaled_sum_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const std::vector<int64_t> sizes = call.integers(1);
  if (!is_single_or_double(gradient) || !is_contiguous(gradient) || sizes.size() > 64) {
    return refused(why, "a gradient that does not fit");
  }
  return {{ExpectedResult{gradient.dtype, sizes}}};
}

// --- Metrics

// strata::add_to_mean_(total, count, values, weight?, inner)
Results add_to_mean(const CallView& call, std::string& why) {
  const Value& values = *call.tensor(2);
  const Value* const weight = call.tensor(3);
  for (size_t i = 0; i < 2; ++i) {
    if (!call.tensor(i)->sizes.empty() || call.tensor(i)->dtype != at::kDouble) {
      return refused(why, "what is no sum");
    }
  }
  if (!is_single_or_double(values) || !is_contiguous(values) ||
      (weight != nullptr && (weight->sizes != values.sizes || weight->dtype != values.dtype ||
                             !is_contiguous(*weight)))) {
    return refused(why, "values and weights that do not fit each other");
  }
  return std::vector<std::optional<ExpectedResult>>{};
}

// strata::argmax_matches(labels, scores)
Results argmax_matches(const CallView& call, std::string& why) {
  const Value& labels = *call.tensor(0);
  const Value& scores = *call.tensor(1);
  if (scores.sizes.empty() || scores.sizes.back() < 1 ||
      without_last(scores.sizes) != labels.sizes || labels.dtype != at::kLong ||
      scores.dtype != at::kFloat) {
    return refused(why, "labels and scores that do not fit each other");
  }
  return {{ExpectedResult{at::kFloat, labels.sizes}}};
}

// --- Operators without a kernel for the meta device, whose result is as their first argument

Results as_first(const CallView& call, std::string&) { return {{like(*call.tensor(0))}}; }

// masked_fill(self, mask, value)
Results masked_fill(const CallView& call, std::string& why) {
  const Value& self = *call.tensor(0);
  const Value& mask = *call.tensor(1);
  const bool is_number = call.tensor(2) == nullptr || call.tensor(2)->sizes.empty();
  if (mask.dtype != at::kBool || mask.sizes.size() > self.sizes.size() || !is_number) {
    return refused(why, "a mask or a value that does not fit");
  }
  const size_t more = self.sizes.size() - mask.sizes.size();
  for (size_t d = 0; d < mask.sizes.size(); ++d) {
    if (mask.sizes[d] != 1 && mask.sizes[d] != self.sizes[more + d]) {
      return refused(why, "a mask that does not fit");
    }
  }
  return {{like(self)}};
}

// native_dropout(input, p, train?)
Results native_dropout(const CallView& call, std::string&) {
  const Value& input = *call.tensor(0);
  return {{like(input), ExpectedResult{at::kBool, input.sizes}}};
}

const std::map<std::string_view, StepRule>& step_rules() {
  static const std::map<std::string_view, StepRule> rules = {
      {"aten::convolution", convolution},
      {"aten::convolution_backward", convolution_backward},
      {"aten::embedding", embedding},
      {"aten::embedding_dense_backward", embedding_backward},
      {"aten::flip", as_first},
      {"aten::masked_fill", masked_fill},
      {"aten::masked_fill_", masked_fill},
      {"aten::max_pool2d_with_indices_backward", max_pool_backward},
      {"aten::native_batch_norm", batch_norm},
      {"aten::native_batch_norm_backward", batch_norm_backward},
      {"aten::native_dropout", native_dropout},
      {"aten::native_layer_norm", layer_norm},
      {"aten::native_layer_norm_backward", layer_norm_backward},
      {"aten::nll_loss_backward", nll_loss_backward},
      {"aten::relu", as_first},
      {"aten::relu_", as_first},
      {"aten::roll", as_first},
      {"strata::add_to_mean_", add_to_mean},
      {"strata::addmm_backward", addmm_backward},
      {"strata::argmax_matches", argmax_matches},
      {"strata::scale_rows", scale_rows},
      {"strata::scaled_sum", scaled_sum},
      {"strata::scaled_sum_backward", scaled_sum_backward},
      {"strata::scale_rows_", scale_rows},
      {"strata::softmax_cross_entropy", cross_entropy},
  };
  return rules;
}

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

const Value* CallView::tensor(size_t argument) const {
  const ValueId id = node_.arguments[argument].values.empty() ? kNoValue : this->id(argument);
  return id == kNoValue ? nullptr : &graph_.values[static_cast<size_t>(id)];
}

StepRule find_step_rule(std::string_view name) {
  if (name.ends_with(".out") || name.ends_with("_out")) return nullptr;
  const auto found = step_rules().find(name.substr(0, name.find('.')));
  return found == step_rules().end() ? nullptr : found->second;
}

Admission admission_of(std::string_view name) {
  constexpr std::string_view kAten = "aten::";
  if (find_step_rule(name) != nullptr) return Admission::kByRule;
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
