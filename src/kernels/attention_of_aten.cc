// What strata::attention means, in operators of ATen. It serves types and devices that have no
// kernel, tracing, and second derivatives.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>

#include <limits>
#include <utility>

#include "kernels/attention_operator.h"

namespace strata::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

at::Tensor both_see(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() ? a.logical_and(b) : b;
}

/// What is seen by all masks but added ones, broadcast to the scores; undefined: all.
at::Tensor seen_by(const AttentionMask& mask, const at::Tensor& scores) {
  at::Tensor seen;
  if (mask.scores && mask.scores->scalar_type() == at::kBool) seen = *mask.scores;
  if (mask.queries) seen = both_see(seen, mask.queries->unsqueeze(1).unsqueeze(-1));
  if (mask.keys) seen = both_see(seen, mask.keys->unsqueeze(1).unsqueeze(1));
  if (!mask.causal && mask.window == 0) return seen;
  const auto options = scores.options().dtype(at::kLong);
  const at::Tensor behind =
      at::arange(scores.size(-2), options).unsqueeze(-1) - at::arange(scores.size(-1), options);
  if (mask.causal) seen = both_see(seen, behind.ge(0));
  if (mask.window != 0) seen = both_see(seen, behind.abs().lt(mask.window));
  return seen;
}

/// Of the key or value, for each head of the query.
at::Tensor for_heads(const at::Tensor& x, int64_t heads) {
  return x.size(1) == heads ? x : x.repeat_interleave(heads / x.size(1), 1);
}

/// The sum over the heads that share one.
at::Tensor over_heads(const at::Tensor& x, const at::Tensor& like) {
  const int64_t shared = like.size(1);
  if (x.size(1) == shared) return x;
  return x.unflatten(1, {shared, x.size(1) / shared}).sum(2);
}

/// bfloat16 is computed as float.
at::Tensor as_computed(const at::Tensor& x) {
  return x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x;
}

struct Weights {
  at::Tensor weights;
  at::Tensor logsumexp;
  at::Tensor blind;  ///< Queries that see nothing; undefined: none.
};

Weights weights_of(const at::Tensor& query, const at::Tensor& key, const AttentionMask& mask,
                   double scale, bool mean_of_unseen) {
  const at::Tensor keys = for_heads(key, query.size(1));
  at::Tensor scores = at::matmul(query, keys.transpose(-2, -1)) * scale;
  if (mask.scores && mask.scores->scalar_type() != at::kBool) scores = scores + *mask.scores;
  const at::Tensor seen = seen_by(mask, scores);
  if (seen.defined()) scores = scores.masked_fill(seen.logical_not(), -kInfinity);
  Weights result;
  result.logsumexp = at::logsumexp(scores, -1);
  if (seen.defined() || mask.scores) {
    result.blind = scores.eq(-kInfinity).all(-1, /*keepdim=*/true);
    // A softmax over nothing is NaN, in its derivatives too.
    scores = scores.masked_fill(result.blind, 0);
    result.logsumexp = result.logsumexp.masked_fill(result.blind.squeeze(-1), kInfinity);
  }
  result.weights = at::softmax(scores, -1);
  if (result.blind.defined()) {
    const double constant = mean_of_unseen ? 1.0 / static_cast<double>(key.size(2)) : 0.0;
    result.weights = result.weights.masked_fill(result.blind, constant);
  }
  return result;
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> attention_of_aten(const at::Tensor& query, const at::Tensor& key,
                                                     const at::Tensor& value,
                                                     const std::optional<at::Tensor>& mask,
                                                     const std::optional<at::Tensor>& query_mask,
                                                     const std::optional<at::Tensor>& key_mask,
                                                     bool causal, int64_t window, double scale,
                                                     bool mean_of_unseen) {
  Weights of = weights_of(as_computed(query), as_computed(key),
                          {mask, query_mask, key_mask, causal, window}, scale, mean_of_unseen);
  const at::Tensor output =
      at::matmul(of.weights, for_heads(as_computed(value), query.size(1))).to(query.scalar_type());
  return {output.transpose(1, 2).contiguous().transpose(1, 2), std::move(of.logsumexp)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward_of_aten(
    const at::Tensor& given, const at::Tensor& given_query, const at::Tensor& given_key,
    const at::Tensor& given_value, const at::Tensor& /*output*/, const at::Tensor& /*logsumexp*/,
    const std::optional<at::Tensor>& mask, const std::optional<at::Tensor>& query_mask,
    const std::optional<at::Tensor>& key_mask, bool causal, int64_t window, double scale,
    bool mean_of_unseen) {
  const at::Tensor gradient = as_computed(given);
  const at::Tensor query = as_computed(given_query);
  const at::Tensor key = as_computed(given_key);
  const at::Tensor value = as_computed(given_value);
  const Weights of =
      weights_of(query, key, {mask, query_mask, key_mask, causal, window}, scale, mean_of_unseen);
  const int64_t heads = query.size(1);
  const at::Tensor of_weights = at::matmul(gradient, for_heads(value, heads).transpose(-2, -1));
  const at::Tensor delta = (of_weights * of.weights).sum(-1, /*keepdim=*/true);
  at::Tensor of_scores = of.weights * (of_weights - delta) * scale;
  if (of.blind.defined()) of_scores = of_scores.masked_fill(of.blind, 0);
  const at::ScalarType type = given_query.scalar_type();
  return {at::matmul(of_scores, for_heads(key, heads)).to(type),
          over_heads(at::matmul(of_scores.transpose(-2, -1), query), key).to(type),
          over_heads(at::matmul(of.weights.transpose(-2, -1), gradient), value).to(type)};
}

std::tuple<at::Tensor, at::Tensor> attention_shapes(
    const at::Tensor& query, const at::Tensor& /*key*/, const at::Tensor& value,
    const std::optional<at::Tensor>& /*mask*/, const std::optional<at::Tensor>& /*query_mask*/,
    const std::optional<at::Tensor>& /*key_mask*/, bool /*causal*/, int64_t /*window*/,
    double /*scale*/, bool /*mean_of_unseen*/) {
  const int64_t batch = query.size(0);
  const int64_t heads = query.size(1);
  const int64_t queries = query.size(2);
  const at::ScalarType type = as_computed(query).scalar_type();
  return {at::empty({batch, queries, heads, value.size(3)}, query.options()).transpose(1, 2),
          at::empty({batch, heads, queries}, query.options().dtype(type))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward_shapes(
    const at::Tensor& /*gradient*/, const at::Tensor& query, const at::Tensor& key,
    const at::Tensor& value, const at::Tensor& /*output*/, const at::Tensor& /*logsumexp*/,
    const std::optional<at::Tensor>& /*mask*/, const std::optional<at::Tensor>& /*query_mask*/,
    const std::optional<at::Tensor>& /*key_mask*/, bool /*causal*/, int64_t /*window*/,
    double /*scale*/, bool /*mean_of_unseen*/) {
  return {at::empty_like(query), at::empty_like(key), at::empty_like(value)};
}

}  // namespace strata::kernels
