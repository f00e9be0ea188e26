// Recurrent layers: libtorch's outside of replica functions, and strata's.
#include "graph/untrusted/rule_parts.h"
#include "graph/untrusted/rule_tables.h"

namespace strata::graph::untrusted {
namespace {

/// So that sizes can be multiplied.
constexpr int64_t kMostUnits = int64_t{1} << 20;

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
  if (input.sizes.size() != 3 || units < 1 || units > kMostUnits) {
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

// --- strata's. They look at rows and words by themselves.

bool is_matrix(const Value& value, at::ScalarType dtype, int64_t rows, int64_t columns) {
  return value.dtype == dtype && value.sizes == std::vector<int64_t>{rows, columns};
}
bool is_absent_or_matrix(const Value* value, at::ScalarType dtype, int64_t rows, int64_t columns) {
  return value == nullptr || is_matrix(*value, dtype, rows, columns);
}

/// A layer's sizes.
struct Layer {
  at::ScalarType dtype;
  int64_t rows;  // of all steps
  int64_t batch;
  int64_t units;

  ExpectedResult of_steps(int64_t columns) const { return {dtype, {rows, columns}}; }
  ExpectedResult with_first() const { return {dtype, {batch + rows, units}}; }
  ExpectedResult state() const { return {dtype, {batch, units}}; }
};

/// `rows` are of the batch, and each step has at most the whole batch; all steps have the rows of x.
bool are_steps(const CallView& call, size_t rows, size_t sizes, const Layer& layer) {
  int64_t total = 0;
  for (const int64_t size : call.integers(sizes)) {
    if (size < 0 || size > layer.batch || size > layer.rows - total) return false;
    total += size;
  }
  return total == layer.rows && has_one_each(call.tensor(rows), layer.rows);
}

/// Of a call that begins with x, h and, of an LSTM, c, and continues with the weights.
std::optional<Layer> layer_of(const CallView& call, size_t weights, int64_t gates) {
  const Value& x = *call.tensor(0);
  const Value& h = *call.tensor(1);
  if (x.sizes.size() != 2 || h.sizes.size() != 2 || h.sizes[0] < 1 || h.sizes[1] < 1 ||
      h.sizes[1] > kMostUnits || !is_single_or_double(x)) {
    return std::nullopt;
  }
  const Layer layer{x.dtype, x.sizes[0], h.sizes[0], h.sizes[1]};
  for (size_t state = 1; state < weights; ++state) {
    if (!is_matrix(*call.tensor(state), x.dtype, layer.batch, layer.units)) return std::nullopt;
  }
  const int64_t columns = gates * layer.units;
  if (!is_matrix(*call.tensor(weights), x.dtype, x.sizes[1], columns) ||
      !is_matrix(*call.tensor(weights + 1), x.dtype, layer.units, columns)) {
    return std::nullopt;
  }
  return layer;
}

bool is_bias(const Value* bias, const Layer& layer, int64_t gates) {
  return bias == nullptr || (bias->dtype == layer.dtype && has_one_each(bias, gates * layer.units));
}

// strata::lstm(x, h, c, kernel, recurrent, bias?, rows?, sizes, words?)
Results lstm(const CallView& call, std::string& why) {
  const auto layer = layer_of(call, 3, 4);
  if (!layer || !is_bias(call.tensor(5), *layer, 4)) {
    return refused(why, "inputs, states and weights that do not fit each other");
  }
  if (!are_steps(call, 6, 7, *layer) || !has_one_each(call.tensor(8), layer->rows)) {
    return refused(why, "steps that do not fit the inputs");
  }
  return {{layer->with_first(), layer->with_first(), layer->of_steps(4 * layer->units),
           layer->state(), layer->state()}};
}

// strata::gru(x, h, kernel, recurrent, bias?, recurrent_bias?, rows?, sizes, reset_first, words?)
Results gru(const CallView& call, std::string& why) {
  const auto layer = layer_of(call, 2, 3);
  if (!layer || !is_bias(call.tensor(4), *layer, 3) || !is_bias(call.tensor(5), *layer, 3)) {
    return refused(why, "inputs, states and weights that do not fit each other");
  }
  if (!are_steps(call, 6, 7, *layer) || !has_one_each(call.tensor(9), layer->rows)) {
    return refused(why, "steps that do not fit the inputs");
  }
  return {{layer->with_first(), layer->of_steps(3 * layer->units), layer->of_steps(layer->units),
           layer->state()}};
}

/// Of a backward: what the forward gave, `states` and `gates`, and the matrix `recurrent`.
std::optional<Layer> layer_behind(const Value& states, const Value& gates, const Value& recurrent,
                                  int64_t count) {
  if (states.sizes.size() != 2 || gates.sizes.size() != 2 || states.sizes[1] < 1 ||
      states.sizes[1] > kMostUnits || states.sizes[0] <= gates.sizes[0] ||
      !is_single_or_double(states)) {
    return std::nullopt;
  }
  const Layer layer{states.dtype, gates.sizes[0], states.sizes[0] - gates.sizes[0],
                    states.sizes[1]};
  const int64_t columns = count * layer.units;
  const bool fit = is_contiguous(states) && is_contiguous(gates) &&
                   is_matrix(gates, layer.dtype, layer.rows, columns) &&
                   is_matrix(recurrent, layer.dtype, layer.units, columns);
  return fit ? std::optional(layer) : std::nullopt;
}

// strata::lstm_backward(dy?, dh?, dc?, states, cells, gates, recurrent, rows?, sizes, wants_first)
Results lstm_backward(const CallView& call, std::string& why) {
  const Value& cells = *call.tensor(4);
  const auto layer = layer_behind(*call.tensor(3), *call.tensor(5), *call.tensor(6), 4);
  if (!layer || !is_dense(cells, layer->dtype, call.tensor(3)->sizes)) {
    return refused(why, "what no forward gives");
  }
  if (!is_absent_or_matrix(call.tensor(0), layer->dtype, layer->rows, layer->units) ||
      !is_absent_or_matrix(call.tensor(1), layer->dtype, layer->batch, layer->units) ||
      !is_absent_or_matrix(call.tensor(2), layer->dtype, layer->batch, layer->units)) {
    return refused(why, "a gradient that does not fit");
  }
  if (!are_steps(call, 7, 8, *layer)) return refused(why, "steps that do not fit the inputs");
  return {
      {layer->of_steps(4 * layer->units), layer->state(), layer->state(), like(*call.tensor(6))}};
}

// strata::gru_backward(dy?, dh?, states, gates, inner, recurrent, rows?, sizes, reset_first, wants_first)
Results gru_backward(const CallView& call, std::string& why) {
  const auto layer = layer_behind(*call.tensor(2), *call.tensor(3), *call.tensor(5), 3);
  if (!layer || !is_dense(*call.tensor(4), layer->dtype, {layer->rows, layer->units})) {
    return refused(why, "what no forward gives");
  }
  if (!is_absent_or_matrix(call.tensor(0), layer->dtype, layer->rows, layer->units) ||
      !is_absent_or_matrix(call.tensor(1), layer->dtype, layer->batch, layer->units)) {
    return refused(why, "a gradient that does not fit");
  }
  if (!are_steps(call, 6, 7, *layer)) return refused(why, "steps that do not fit the inputs");
  return {{layer->of_steps(3 * layer->units), layer->state(), like(*call.tensor(5)),
           ExpectedResult{layer->dtype, {3 * layer->units}}}};
}

// strata::recurrent_inputs_backward(gradient, x?, kernel?, words, by_columns, wants_bias)
Results inputs_backward(const CallView& call, std::string& why) {
  const Value& gradient = *call.tensor(0);
  const Value* const x = call.tensor(1);
  const Value* const kernel = call.tensor(2);
  if (gradient.sizes.size() != 2 || !is_single_or_double(gradient) ||
      !is_dense(*call.tensor(3), at::kLong, {gradient.sizes[0]})) {
    return refused(why, "a gradient that does not fit");
  }
  std::vector<std::optional<ExpectedResult>> results(3);
  if (call.flag(5)) results[0] = ExpectedResult{gradient.dtype, {gradient.sizes[1]}};
  for (const Value* const each : {x, kernel}) {
    if (each == nullptr) continue;
    const size_t side = each == x ? 0 : 1;
    if (each->sizes.size() != 2 || each->dtype != gradient.dtype ||
        each->sizes[side] != gradient.sizes[side]) {
      return refused(why, "matrices that do not fit");
    }
  }
  if (kernel != nullptr) {
    results[1] = ExpectedResult{gradient.dtype, {gradient.sizes[0], kernel->sizes[0]}};
  }
  if (x != nullptr) results[2] = ExpectedResult{gradient.dtype, {x->sizes[1], gradient.sizes[1]}};
  return results;
}

}  // namespace

const RuleTable& recurrent_rules() {
  static const RuleTable rules = {
      {"aten::mkldnn_rnn_layer", onednn_layer},
      {"strata::gru", gru},
      {"strata::gru_backward", gru_backward},
      {"strata::lstm", lstm},
      {"strata::lstm_backward", lstm_backward},
      {"strata::recurrent_inputs_backward", inputs_backward},
  };
  return rules;
}

}  // namespace strata::graph::untrusted
