#include "keras/layers/attention_heads.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <set>

#include "keras/call_options.h"
#include "keras/layers/dense_projection.h"
#include "kernels/attention.h"
#include "kernels/projections.h"

namespace strata::layers {

using keras::Call;
using keras::kNone;
using keras::Shape;
using keras::Tensors;

namespace {

/// Options that say where a tensor is.
constexpr const char* kTensorOptions[] = {"key", "attention_mask", "query_mask", "value_mask",
                                          "key_mask"};

at::Tensor both(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() ? a.logical_and(b) : b;
}

/// Which of `keys` steps each of `queries` steps sees: `[1, queries, keys]`.
at::Tensor causal_mask(int64_t queries, int64_t keys, const at::TensorOptions& options) {
  return at::ones({1, queries, keys}, options.dtype(at::kBool)).tril();
}
at::Tensor window_mask(int64_t queries, int64_t keys, int64_t window,
                       const at::TensorOptions& options) {
  const at::Tensor rows = at::arange(queries, options.dtype(at::kLong)).unsqueeze(-1);
  const at::Tensor columns = at::arange(keys, options.dtype(at::kLong));
  return ((rows - columns).abs() < window).unsqueeze(0);
}

/// With size-1 dimensions after the batch until it has `rank`.
at::Tensor widened(at::Tensor mask, int64_t rank, int64_t axis) {
  while (mask.dim() < rank) mask = mask.unsqueeze(axis);
  return mask;
}

/// An input, or the constant that is in the call; undefined: neither.
at::Tensor given(const Tensors& inputs, const std::optional<size_t>& place, const Call& call,
                 const char* name) {
  if (place) return inputs.at(*place);
  const Json* option = call.option(name);
  if (option == nullptr || option->is_null()) return {};
  const at::Tensor constant = keras::detail::constant_tensor(*option);
  STRATA_CHECK(constant.defined(), kUnimplemented, "[keras] attention: got ", option->dump(),
               " as ", name, "; expected a tensor or an array");
  return constant.to(inputs[0].device());
}

}  // namespace

bool asked(const Json* option) {
  return option != nullptr && option->is_bool() && option->as_bool();
}

Places places(size_t count, const Json& options) {
  Places places;
  std::set<size_t> named;
  const auto place = [&](const char* name) -> std::optional<size_t> {
    const Json* option = options.is_null() ? nullptr : options.find(name);
    if (option == nullptr || option->is_null()) return std::nullopt;
    const int64_t index = keras::detail::tensor_index(*option);
    if (index < 0) return std::nullopt;
    named.insert(static_cast<size_t>(index));
    return static_cast<size_t>(index);
  };
  const auto key = place(kTensorOptions[0]);
  const Json* given_key = options.is_null() ? nullptr : options.find(kTensorOptions[0]);
  STRATA_CHECK(key || given_key == nullptr || given_key->is_null(), kUnimplemented,
               "[keras] attention: got a constant as key; expected a tensor of the model");
  places.attention_mask = place(kTensorOptions[1]);
  places.query_mask = place(kTensorOptions[2]);
  places.value_mask = place(kTensorOptions[3]);
  places.key_mask = place(kTensorOptions[4]);
  places.has_key = key.has_value();
  if (key) places.key = *key;
  for (size_t i = 2; i < count && !places.has_key; ++i) {
    if (named.contains(i)) continue;
    places.key = i;
    places.has_key = true;
  }
  return places;
}

void HeadsImpl::build(const std::vector<Shape>& inputs) {
  check(inputs);
  build_heads(inputs[0], inputs.at(places(inputs.size(), build_options()).key), inputs[1]);
}

void HeadsImpl::check(const std::vector<Shape>& inputs) const {
  STRATA_CHECK(inputs.size() >= 2, kInvalidArgument, "[keras] Layer \"", name(), "\": got ",
               inputs.size(), " input(s); expected query and value");
}

void HeadsImpl::check_key(const Shape& value, const Shape& key) const {
  bool fits = value.size() == key.size();
  for (size_t i = 1; fits && i + 1 < value.size(); ++i) {
    fits = value[i] == key[i] || value[i] == kNone || key[i] == kNone;
  }
  STRATA_CHECK(fits, kInvalidArgument, "[keras] Layer \"", name(),
               "\": All dimensions of `value` and `key`, except the last one, must be equal. "
               "Received: value_shape=",
               keras::to_string(value), " and key_shape=", keras::to_string(key));
}

Tensors HeadsImpl::call(const Tensors& inputs, const Call& call) {
  check(std::vector<Shape>(inputs.size()));
  const Places at = places(inputs.size(), call.options);
  const at::Tensor& query = inputs[0];
  const at::Tensor& value = inputs[1];
  const at::Tensor& key = inputs.at(at.key);
  check_key(value.sizes().vec(), key.sizes().vec());
  const bool wants_scores = asked(call.option("return_attention_scores"));
  const Settings settings = this->settings();

  Seen seen = masks_of_steps(inputs, at, call);
  seen.mask = given(inputs, at.attention_mask, call, kTensorOptions[1]);
  if (seen.mask.defined()) seen.mask = seen.mask.to(at::kBool);
  seen.causal = asked(call.option("use_causal_mask"));
  seen.window = settings.sliding_window;

  Heads heads = project(query, key, value);
  const bool plain = settings.dropout <= 0 && !wants_scores && heads.query.dim() == 4;
  Tensors outputs;
  if (plain) {
    outputs = {finish(attend(heads, seen, settings.scale), query)};
  } else {
    heads = for_each_query_head(std::move(heads));
    const auto [output, scores] =
        attend_with_scores(heads, joined(seen, heads), settings, call.training);
    outputs = {finish(output, query)};
    if (wants_scores) outputs.push_back(scores);
  }
  for (const at::Tensor& y : outputs) add_activity_loss(activity_regularizer(), y);
  return outputs;
}

HeadsImpl::Seen HeadsImpl::masks_of_steps(const Tensors& inputs, const Places& at,
                                          const Call& call) const {
  const auto option = [&](const std::optional<size_t>& place, int name) {
    return given(inputs, place, call, kTensorOptions[name]);
  };
  const auto either = [&](const at::Tensor& first, const at::Tensor& second) {
    const at::Tensor mask = first.defined() ? first : second;
    return mask.defined() ? mask.to(at::kBool) : mask;
  };
  Seen seen;
  seen.queries = takes_query_mask() ? either(option(at.query_mask, 2), call.mask(0))
                                    : either(call.mask(0), {});
  const at::Tensor value = either(option(at.value_mask, 3), call.mask(1));
  const at::Tensor key =
      either(option(at.key_mask, 4), at.has_key ? call.mask(at.key) : at::Tensor());
  if (value.defined()) seen.keys = value;
  if (key.defined()) seen.keys = both(seen.keys, key);
  return seen;
}

at::Tensor HeadsImpl::joined(const Seen& seen, const Heads& heads) {
  const int64_t queries = heads.query.size(1);
  const int64_t keys = heads.key.size(1);
  const auto options = heads.query.options();
  at::Tensor all;
  if (seen.queries.defined()) all = seen.queries.unsqueeze(-1);
  if (seen.keys.defined()) all = both(all, seen.keys.unsqueeze(-2));
  if (seen.causal) all = both(all, causal_mask(queries, keys, options));
  if (seen.window) all = both(all, window_mask(queries, keys, *seen.window, options));
  if (seen.mask.defined()) all = both(all, seen.mask);
  return all;
}

HeadsImpl::Heads HeadsImpl::project_with(const EinsumDense& query_dense,
                                         const EinsumDense& key_dense,
                                         const EinsumDense& value_dense, const at::Tensor& query,
                                         const at::Tensor& key, const at::Tensor& value) {
  const auto together = [&]() -> std::optional<Heads> {
    if (!query.is_same(key) || !query.is_same(value) || query.numel() == 0) return std::nullopt;
    Tensors weights;
    Tensors biases;
    std::vector<Shape> shapes;
    for (const EinsumDense* dense : {&query_dense, &key_dense, &value_dense}) {
      const auto projection = dense_projection(*dense, query);
      // With one summed axis: all but the last are rows.
      if (!projection || projection->kernel.size(0) != query.size(-1)) return std::nullopt;
      weights.push_back(projection->kernel);
      if (projection->bias.defined()) biases.push_back(projection->bias);
      shapes.push_back(query.sizes().vec());
      shapes.back().pop_back();
      shapes.back().insert(shapes.back().end(), projection->features.begin(),
                           projection->features.end());
    }
    const auto outputs = kernels::projections(query.flatten(0, -2), weights, biases);
    if (!outputs) return std::nullopt;
    return Heads{(*outputs)[0].view(shapes[0]), (*outputs)[1].view(shapes[1]),
                 (*outputs)[2].view(shapes[2])};
  };
  if (auto heads = together()) return *std::move(heads);
  return {query_dense(query), key_dense(key), value_dense(value)};
}

HeadsImpl::Heads HeadsImpl::for_each_query_head(Heads heads) {
  const int64_t repeats = heads.query.size(-2) / heads.key.size(-2);
  if (repeats == 1) return heads;
  heads.key = heads.key.repeat_interleave(repeats, -2);
  heads.value = heads.value.repeat_interleave(repeats, -2);
  return heads;
}

at::Tensor HeadsImpl::attend(const Heads& heads, const Seen& seen, double scale) {
  const auto tiled = [&] {
    const auto optional = [](const at::Tensor& tensor) {
      return tensor.defined() ? std::optional(tensor) : std::nullopt;
    };
    kernels::AttentionMask mask = {.queries = optional(seen.queries),
                                   .keys = optional(seen.keys),
                                   .causal = seen.causal,
                                   .window = seen.window.value_or(0)};
    if (seen.mask.defined()) mask.scores = widened(seen.mask, 4, -3);
    return kernels::attention(heads.query.transpose(1, 2), heads.key.transpose(1, 2),
                              heads.value.transpose(1, 2), mask, scale,
                              kernels::UnseeingQueries::kMean);
  };
  if (const auto output = tiled()) return output->transpose(1, 2);
  const Heads each = for_each_query_head(heads);
  const at::Tensor q = each.query.transpose(1, 2);
  const at::Tensor k = each.key.transpose(1, 2);
  const at::Tensor v = each.value.transpose(1, 2);
  const bool masked = seen.queries.defined() || seen.keys.defined() || seen.mask.defined();
  if (!masked && !seen.window && q.numel() > 0 && k.numel() > 0) {
    return at::scaled_dot_product_attention(q, k, v, {}, /*dropout_p=*/0, seen.causal, scale)
        .transpose(1, 2);
  }
  const bool half = q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16;
  at::Tensor scores = at::matmul(q, k.transpose(-2, -1));
  if (half) scores = scores.to(at::kFloat);
  scores = scores * scale;
  if (const at::Tensor all = joined(seen, each); all.defined()) {
    scores =
        at::where(widened(all, 4, -3), scores, at::full({}, -0.7 * 3.38953e38, scores.options()));
  }
  return at::matmul(at::softmax(scores, -1).to(v.scalar_type()), v).transpose(1, 2);
}

std::pair<at::Tensor, at::Tensor> HeadsImpl::attend_with_scores(const Heads& heads,
                                                                const at::Tensor& seen,
                                                                const Settings& settings,
                                                                bool training) {
  // [batch, not attended..., heads, | attended... | size]
  const int64_t rank = heads.query.dim();
  std::vector<int64_t> order;
  for (int64_t d = 0; d < rank - 1; ++d) {
    if (std::find(settings.axes.begin(), settings.axes.end(), d) == settings.axes.end()) {
      order.push_back(d);
    }
  }
  const auto kept = static_cast<int64_t>(order.size());
  order.insert(order.end(), settings.axes.begin(), settings.axes.end());
  order.push_back(rank - 1);
  const at::Tensor q = heads.query.permute(order);
  const at::Tensor k = heads.key.permute(order);
  const at::Tensor v = heads.value.permute(order);
  const auto flat = [&](const at::Tensor& x) {
    int64_t steps = 1;
    for (int64_t d = kept; d < rank - 1; ++d) steps *= x.size(d);
    int64_t batch = 1;
    for (int64_t d = 0; d < kept; ++d) batch *= x.size(d);
    return x.reshape({batch, steps, x.size(-1)});
  };
  std::vector<int64_t> shape(q.sizes().begin(), q.sizes().end() - 1);
  shape.insert(shape.end(), k.sizes().begin() + kept, k.sizes().end() - 1);
  at::Tensor scores = at::bmm(flat(q) * settings.scale, flat(k).transpose(1, 2)).reshape(shape);
  at::Tensor mask;
  if (seen.defined()) {
    const auto attended = static_cast<int64_t>(settings.axes.size());
    mask = widened(seen, scores.dim(), -2 * attended - 1);
    const double far = scores.scalar_type() == at::kHalf ? -3e4 : -1e9;
    scores = at::where(mask, scores, at::full({}, far, scores.options()));
  }
  int64_t sources = 1;
  for (int64_t d = kept; d < rank - 1; ++d) sources *= k.size(d);
  std::vector<int64_t> rows(q.sizes().begin(), q.sizes().end() - 1);
  rows.push_back(sources);
  scores = at::softmax(scores.reshape(rows), -1).reshape(shape);
  if (mask.defined()) scores = at::where(mask, scores, at::zeros({}, scores.options()));
  const at::Tensor weights =
      settings.dropout > 0 ? at::dropout(scores, settings.dropout, training) : scores;
  const at::Tensor values = flat(v);
  std::vector<int64_t> output_shape(q.sizes().begin(), q.sizes().end() - 1);
  output_shape.push_back(v.size(-1));
  const at::Tensor y = at::bmm(weights.reshape({values.size(0), flat(q).size(1), sources}), values)
                           .reshape(output_shape);
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  return {y.permute(back), scores};
}

}  // namespace strata::layers
