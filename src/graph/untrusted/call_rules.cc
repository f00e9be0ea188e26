// Most operators check that no argument makes them read or write beyond their tensors, before they
// compute. For the others there is a rule. Where an operator trusts the elements of a tensor (positions
// of maxima, labels in a backward), the rule demands that they come from the operator that makes or
// has checked them, in the same graph, and that no node writes them.
#include "graph/untrusted/call_rules.h"

#include <algorithm>
#include <functional>
#include <map>

#include "core/checked_size.h"
#include "strata/core/str_cat.h"

namespace strata::graph::untrusted {
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

/// A convolution, in one direction or the other, whose arguments fit each other.
struct Convolution {
  std::vector<int64_t> result;  // its sizes
  int64_t channels;             // of the result
};

/// @param first  The argument that is the stride.
std::optional<Convolution> convolution_of(const CallView& call, const Value& input,
                                          const Value& weight, size_t first, std::string& why) {
  constexpr int64_t kLargest = 1 << 20;
  why = "sizes that do not fit each other";
  const size_t dimensions = input.sizes.size();
  if (dimensions < 3 || dimensions > 5 || weight.sizes.size() != dimensions ||
      input.dtype != weight.dtype || !is_real(input)) {
    return std::nullopt;
  }
  const size_t spatial = dimensions - 2;
  const auto list = [&](size_t argument) {
    std::vector<int64_t> numbers = call.integers(argument);
    if (numbers.size() == 1) numbers.resize(spatial, numbers[0]);
    return numbers;
  };
  const std::vector<int64_t> stride = list(first), padding = list(first + 1),
                             dilation = list(first + 2), more = list(first + 4);
  const bool transposed = call.flag(first + 3);
  const int64_t groups = call.given(first + 5).toInt();
  for (const auto* each : {&stride, &padding, &dilation, &more}) {
    if (each->size() != spatial) return std::nullopt;
  }
  for (const auto* each : {&stride, &padding, &dilation, &more, &input.sizes, &weight.sizes}) {
    const auto is_large = [](int64_t number) { return number < 0 || number > kLargest; };
    if (std::ranges::any_of(*each, is_large)) return std::nullopt;
  }
  if (groups < 1 || groups > kLargest || weight.sizes[0] < 1 || weight.sizes[0] % groups != 0 ||
      weight.sizes[1] < 1) {
    return std::nullopt;
  }
  // A transposed one has the weights of the convolution that it undoes.
  const int64_t of_groups = weight.sizes[1] * groups;
  const int64_t channels = transposed ? of_groups : weight.sizes[0];
  if (input.sizes[1] != (transposed ? weight.sizes[0] : of_groups)) return std::nullopt;
  Convolution convolution{.result = {input.sizes[0], channels}, .channels = channels};
  for (size_t d = 0; d < spatial; ++d) {
    const int64_t size = input.sizes[d + 2], kernel = weight.sizes[d + 2];
    if (stride[d] < 1 || dilation[d] < 1 || kernel < 1) return std::nullopt;
    const int64_t reach = dilation[d] * (kernel - 1) + 1;
    if (transposed) {
      const int64_t result = (size - 1) * stride[d] - 2 * padding[d] + reach + more[d];
      if (size < 1 || more[d] >= std::max(stride[d], dilation[d]) || result < 1) {
        return std::nullopt;
      }
      convolution.result.push_back(result);
    } else {
      const int64_t room = size + 2 * padding[d] - reach;
      if (more[d] != 0 || room < 0) return std::nullopt;
      convolution.result.push_back(room / stride[d] + 1);
    }
  }
  return convolution;
}

// convolution(input, weight, bias?, stride, padding, dilation, transposed, output_padding, groups)
Results convolution(const CallView& call, std::string& why) {
  const Value& input = *call.tensor(0);
  const Value* const bias = call.tensor(2);
  auto made = convolution_of(call, input, *call.tensor(1), 3, why);
  if (!made) return std::nullopt;
  if (!has_one_each(bias, made->channels) || (bias != nullptr && bias->dtype != input.dtype)) {
    return refused(why, "a bias that does not fit");
  }
  return {{ExpectedResult{input.dtype, std::move(made->result)}}};
}

// convolution_backward(gradient, input, weight, bias_sizes?, stride, padding, dilation, transposed,
//                      output_padding, groups, output_mask)
Results convolution_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value& input = *call.tensor(1);
  const Value& weight = *call.tensor(2);
  const auto made = convolution_of(call, input, weight, 4, why);
  if (!made) return std::nullopt;
  const std::vector<int64_t> bias = {made->channels};
  const c10::List<bool> mask = call.given(10).toBoolList();
  const bool bias_fits = call.given(3).isNone() || call.integers(3) == bias;
  if (gradient.sizes != made->result || gradient.dtype != input.dtype || mask.size() != 3 ||
      !bias_fits || (mask.get(2) && call.given(3).isNone())) {
    return refused(why, "a gradient that does not fit");
  }
  std::vector<std::optional<ExpectedResult>> results(3);
  if (mask.get(0)) results[0] = like(input);
  if (mask.get(1)) results[1] = like(weight);
  if (mask.get(2)) results[2] = ExpectedResult{input.dtype, bias};
  return results;
}

// --- Normalizations

/// Parameters and statistics at the arguments `first` to `last`: one number a channel each, all of the
/// input's dtype, or float with an input of 16 bits. Some may be absent.
bool are_of_channels(const CallView& call, const Value& input, size_t first, size_t last) {
  const bool narrow = is_one_of(input.dtype, {at::kBFloat16, at::kHalf});
  std::optional<at::ScalarType> dtype;
  for (size_t i = first; i <= last; ++i) {
    const Value* const value = call.tensor(i);
    if (value == nullptr) continue;
    const bool known = value->dtype == input.dtype || (narrow && value->dtype == at::kFloat);
    if (!known || value->dtype != dtype.value_or(value->dtype)) return false;
    if (!has_one_each(value, input.sizes[1])) return false;
    dtype = value->dtype;
  }
  return true;
}

// native_batch_norm(input, weight?, bias?, mean?, variance?, training, momentum, eps)
Results batch_norm(const CallView& call, std::string& why) {
  const Value& input = *call.tensor(0);
  if (input.sizes.size() < 2 || !is_real(input)) return refused(why, "an input without channels");
  if (!are_of_channels(call, input, 1, 4)) {
    return refused(why, "a parameter or a statistic that is not one number a channel");
  }
  if (!call.flag(5) && (call.tensor(3) == nullptr || call.tensor(4) == nullptr)) {
    return refused(why, "no statistics");
  }
  const ExpectedResult statistic{input.dtype == at::kDouble ? at::kDouble : at::kFloat,
                                 {input.sizes[1]}};
  return {{like(input), statistic, statistic}};
}

// _native_batch_norm_legit_no_training(input, weight?, bias?, mean, variance, momentum, eps)
Results batch_norm_of_inference(const CallView& call, std::string& why) {
  const Value& input = *call.tensor(0);
  if (input.sizes.size() < 2 || !is_real(input)) return refused(why, "an input without channels");
  if (!are_of_channels(call, input, 1, 4)) {
    return refused(why, "a parameter or a statistic that is not one number a channel");
  }
  const ExpectedResult statistic{input.dtype == at::kDouble ? at::kDouble : at::kFloat, {0}};
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
  if (!statistics || !is_real(input)) return refused(why, "sizes that do not fit each other");
  at::ScalarType dtype = input.dtype;
  for (const Value* const value : {call.tensor(2), call.tensor(3)}) {
    if (value == nullptr) continue;
    const bool wider = value->dtype == at::kFloat && !is_single_or_double(input);
    if (value->sizes != normalized || (value->dtype != input.dtype && !wider)) {
      return refused(why, "a parameter that does not fit");
    }
    dtype = value->dtype;
  }
  const ExpectedResult statistic{dtype, *statistics};
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

// native_group_norm(input, weight?, bias?, N, C, HxW, groups, eps)
Results group_norm(const CallView& call, std::string& why) {
  const Value& input = *call.tensor(0);
  const int64_t examples = call.given(3).toInt(), channels = call.given(4).toInt(),
                rest = call.given(5).toInt(), groups = call.given(6).toInt();
  const bool has_channels = input.sizes.size() >= 2;
  const auto elements = detail::checked_product<int64_t>(
      std::vector(input.sizes.begin() + (has_channels ? 2 : 0), input.sizes.end()));
  if (!has_channels || !is_real(input) || input.sizes[0] != examples ||
      input.sizes[1] != channels || elements != rest || groups < 1 || channels % groups != 0) {
    return refused(why, "sizes that do not fit each other");
  }
  if (!are_of_channels(call, input, 1, 2)) {
    return refused(why, "a parameter that is not one number a channel");
  }
  const bool narrow = call.tensor(1) != nullptr && call.tensor(1)->dtype != input.dtype;
  const ExpectedResult statistic{narrow ? at::kFloat : input.dtype, {examples, groups}};
  return {{like(input), statistic, statistic}};
}

// --- Recurrent layers and attention, as libtorch has them outside of replica functions

// mkldnn_rnn_layer(input, weight0, weight1, weight2, weight3, hx, cx, reverse, batch_sizes, mode,
//                  hidden_size, num_layers, has_biases, bidirectional, batch_first, train)
Results onednn_layer(const CallView& call, std::string& why) {
  constexpr int64_t kLstm = 2;
  const Value& input = *call.tensor(0);
  const int64_t units = call.given(10).toInt();
  if (call.given(9).toInt() != kLstm || call.given(11).toInt() != 1 || !call.integers(8).empty() ||
      call.flag(13) || call.flag(14) || call.flag(15)) {
    return refused(why, "another layer than an LSTM in one direction, for inference");
  }
  if (input.sizes.size() != 3 || units < 1 || units > (1 << 20)) {
    return refused(why, "an input that is no sequence of batches");
  }
  const int64_t gates = 4 * units;
  const std::vector<std::vector<int64_t>> expected = {
      {gates, input.sizes[2]}, {gates, units}, {gates}, {gates}};
  const size_t weights = call.flag(12) ? 4 : 2;
  for (size_t i = 0; i < weights; ++i) {
    if (call.tensor(i + 1)->sizes != expected[i] || call.tensor(i + 1)->dtype != input.dtype) {
      return refused(why, "weights that do not fit");
    }
  }
  const Value& hidden = *call.tensor(5);
  for (const Value* const state : {&hidden, call.tensor(6)}) {
    const size_t more = state->sizes.size() == 3 ? 1 : 0;  // a dimension of layers
    const std::vector<int64_t> rest(state->sizes.begin() + static_cast<int64_t>(more),
                                    state->sizes.end());
    if (rest != std::vector<int64_t>{input.sizes[1], units} || state->sizes != hidden.sizes ||
        (more == 1 && state->sizes[0] != 1) || state->dtype != input.dtype) {
      return refused(why, "a state that does not fit");
    }
  }
  return {{ExpectedResult{input.dtype, {input.sizes[0], input.sizes[1], units}}, like(hidden),
           like(hidden), std::nullopt}};
}

/// Each dimension, from the last on, is 1 or that of `sizes`.
bool broadcasts_to(const std::vector<int64_t>& from, const std::vector<int64_t>& sizes) {
  if (from.size() > sizes.size()) return false;
  const size_t more = sizes.size() - from.size();
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] != 1 && from[d] != sizes[more + d]) return false;
  }
  return true;
}

// _scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, causal, mask?, scale?)
Results flash_attention(const CallView& call, std::string& why) {
  const Value& query = *call.tensor(0);
  const Value& key = *call.tensor(1);
  const Value& value = *call.tensor(2);
  const Value* const mask = call.tensor(5);
  if (query.sizes.size() != 4 || key.sizes.size() != 4 || value.sizes != key.sizes ||
      query.sizes[0] != key.sizes[0] || query.sizes[1] != key.sizes[1] ||
      query.sizes[3] != key.sizes[3] || !is_real(query) || key.dtype != query.dtype ||
      value.dtype != query.dtype || call.given(3).toDouble() != 0) {
    return refused(why, "queries, keys and values that do not fit each other");
  }
  const std::vector<int64_t> rows = {query.sizes[0], query.sizes[1], query.sizes[2]};
  std::vector<int64_t> scores = rows;
  scores.push_back(key.sizes[2]);
  if (mask != nullptr && (!broadcasts_to(mask->sizes, scores) ||
                          (mask->dtype != query.dtype && mask->dtype != at::kFloat))) {
    return refused(why, "a mask that does not fit");
  }
  const at::ScalarType sums = query.dtype == at::kDouble ? at::kDouble : at::kFloat;
  return {{like(query), ExpectedResult{sums, rows}}};
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

/// Of a dense layer of matrices of `dtype`: (gradient, a?, b?, b_by_columns, wants_bias, ...)
Results dense_gradients(const CallView& call, at::ScalarType dtype, at::ScalarType of_bias,
                        at::ScalarType of_weights, std::string& why) {
  const Value& gradient = *call.tensor(0);
  for (const Value* const each : {&gradient, call.tensor(1), call.tensor(2)}) {
    if (each != nullptr && (each->sizes.size() != 2 || each->dtype != dtype)) {
      return refused(why, str_cat("what is no matrix of ", dtype));
    }
  }
  std::vector<std::optional<ExpectedResult>> results(3);
  if (call.flag(4)) results[0] = ExpectedResult{of_bias, {gradient.sizes[1]}};
  if (const Value* const b = call.tensor(2)) {
    if (b->sizes[1] != gradient.sizes[1]) return refused(why, "matrices that do not fit");
    results[1] = ExpectedResult{dtype, {gradient.sizes[0], b->sizes[0]}};
  }
  if (const Value* const a = call.tensor(1)) {
    if (a->sizes[0] != gradient.sizes[0]) return refused(why, "matrices that do not fit");
    results[2] = ExpectedResult{of_weights, {a->sizes[1], gradient.sizes[1]}};
  }
  return results;
}

// strata::addmm_backward(gradient, a?, b?, b_by_columns, wants_bias)
Results addmm_backward(const CallView& call, std::string& why) {
  return dense_gradients(call, at::kFloat, at::kFloat, at::kFloat, why);
}

// strata::half_addmm_backward(gradient, a?, b?, b_by_columns, wants_bias, bias_dtype, weights_dtype)
Results half_addmm_backward(const CallView& call, std::string& why) {
  const at::ScalarType of_bias = call.given(5).toScalarType();
  const at::ScalarType of_weights = call.given(6).toScalarType();
  for (const at::ScalarType each : {of_bias, of_weights}) {
    if (!is_one_of(each, {at::kFloat, at::kBFloat16})) return refused(why, "another dtype");
  }
  return dense_gradients(call, at::kBFloat16, of_bias, of_weights, why);
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
  if (mask.dtype != at::kBool || !broadcasts_to(mask.sizes, self.sizes) || !is_number) {
    return refused(why, "a mask or a value that does not fit");
  }
  return {{like(self)}};
}

// native_dropout(input, p, train?)
Results native_dropout(const CallView& call, std::string&) {
  const Value& input = *call.tensor(0);
  return {{like(input), ExpectedResult{at::kBool, input.sizes}}};
}

const std::map<std::string_view, CallRule>& call_rules() {
  static const std::map<std::string_view, CallRule> rules = {
      {"aten::_native_batch_norm_legit_no_training", batch_norm_of_inference},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", flash_attention},
      {"aten::convolution", convolution},
      {"aten::convolution_backward", convolution_backward},
      {"aten::embedding", embedding},
      {"aten::embedding_dense_backward", embedding_backward},
      {"aten::flip", as_first},
      {"aten::masked_fill", masked_fill},
      {"aten::masked_fill_", masked_fill},
      {"aten::max_pool2d_with_indices_backward", max_pool_backward},
      {"aten::mkldnn_rnn_layer", onednn_layer},
      {"aten::native_batch_norm", batch_norm},
      {"aten::native_batch_norm_backward", batch_norm_backward},
      {"aten::native_dropout", native_dropout},
      {"aten::native_group_norm", group_norm},
      {"aten::native_layer_norm", layer_norm},
      {"aten::native_layer_norm_backward", layer_norm_backward},
      {"aten::nll_loss_backward", nll_loss_backward},
      {"aten::relu", as_first},
      {"aten::relu_", as_first},
      {"aten::roll", as_first},
      {"strata::add_to_mean_", add_to_mean},
      {"strata::addmm_backward", addmm_backward},
      {"strata::half_addmm_backward", half_addmm_backward},
      {"strata::argmax_matches", argmax_matches},
      {"strata::scale_rows", scale_rows},
      {"strata::scaled_sum", scaled_sum},
      {"strata::scaled_sum_backward", scaled_sum_backward},
      {"strata::scale_rows_", scale_rows},
      {"strata::softmax_cross_entropy", cross_entropy},
  };
  return rules;
}

}  // namespace

const Value* CallView::tensor(size_t argument) const {
  const ValueId id = node_.arguments[argument].values.empty() ? kNoValue : this->id(argument);
  return id == kNoValue ? nullptr : &graph_.values[static_cast<size_t>(id)];
}

CallRule find_call_rule(std::string_view name) {
  if (name.ends_with(".out") || name.ends_with("_out")) return nullptr;
  const auto found = call_rules().find(name.substr(0, name.find('.')));
  return found == call_rules().end() ? nullptr : found->second;
}

std::string fault_of_sizes(const Graph& graph, size_t node) {
  const CallRule rule = find_call_rule(graph.nodes[node].name);
  std::string why;
  return rule == nullptr || rule(CallView(graph, node), why) ? "" : why;
}

}  // namespace strata::graph::untrusted
