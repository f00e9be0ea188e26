#include "operators/operator_samples.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/torch.h>

#include <optional>
#include <utility>

namespace strata::test {
namespace {

using at::Tensor;
using c10::IValue;
using torch::jit::Stack;

const IValue kNone;

Tensor some(at::IntArrayRef sizes) { return torch::randn(sizes); }

/// What an operator gives for these arguments.
Stack results_of(const char* name, Stack stack) {
  const at::AutoDispatchBelowADInplaceOrView below;
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(stack);
  return stack;
}

OperatorSamples addmm_backward() {
  const Tensor gradient = some({9, 5}), a = some({9, 7}), b = some({7, 5});
  return {{{gradient, a, b, false, true},
           {gradient, a, b, true, true},
           {gradient, kNone, b, false, false},
           {some({1, 5}).expand({9, 5}), a, kNone, false, true},
           {some({80, 70}), some({80, 100}), some({100, 70}), true, true}}};
}

OperatorSamples half_addmm_backward() {
  const auto half = [](at::IntArrayRef sizes) { return some(sizes).to(at::kBFloat16); };
  const auto type = [](at::ScalarType dtype) { return static_cast<int64_t>(dtype); };
  return {
      {{half({9, 6}), half({9, 8}), half({8, 6}), false, true, type(at::kFloat), type(at::kFloat)},
       {half({9, 6}), half({9, 8}), half({8, 6}), true, true, type(at::kBFloat16),
        type(at::kBFloat16)}},
      1e-2};
}

OperatorSamples batch_norm() {
  const Tensor x = some({3, 5, 4, 7});
  return {{{x, some({5}), some({5}), kNone, 1e-3, false},
           {x, some({5}), some({5}), some({3, 5, 4, 7}), 1e-3, true},
           {some({6, 5}), some({5}), some({5}), kNone, 1e-5, true}}};
}

OperatorSamples batch_norm_backward() {
  OperatorSamples samples;
  for (const Stack& call : batch_norm().calls) {
    const Stack forward = results_of("strata::batch_norm_of_planes", call);
    const bool relu = call[5].toBool();
    const Tensor& x = call[0].toTensor();
    samples.calls.push_back({torch::randn_like(x), x, relu ? forward[0] : kNone, call[1],
                             forward[1], forward[3], torch::zeros_like(x), relu});
    samples.calls.push_back(
        {torch::randn_like(x), x, kNone, call[1], forward[1], forward[3], kNone, false});
  }
  return samples;
}

OperatorSamples layer_norm_of_sum() {
  return {{{some({6, 40}), some({6, 40}), some({40}), some({40}), 1, 1e-3},
           {some({2, 3, 17}), some({2, 3, 17}), kNone, kNone, 1, 1e-5},
           {some({5, 4, 6}), some({5, 4, 6}), some({4, 6}), some({4, 6}), 2, 1e-5}}};
}

OperatorSamples layer_norm_of_sum_backward() {
  OperatorSamples samples;
  for (const Stack& call : layer_norm_of_sum().calls) {
    const Stack forward = results_of("strata::layer_norm_of_sum", call);
    const Tensor& x = call[0].toTensor();
    for (const bool beside : {false, true}) {
      samples.calls.push_back({torch::randn_like(x), beside ? IValue(torch::randn_like(x)) : kNone,
                               forward[1], call[2], forward[2], forward[3], call[4]});
    }
  }
  return samples;
}

OperatorSamples rms_norm() {
  return {{{some({6, 40}), some({40}), 1e-3}, {some({2, 3, 17}), some({17}), 1e-5}}};
}

OperatorSamples rms_norm_backward() {
  OperatorSamples samples;
  for (const Stack& call : rms_norm().calls) {
    const Stack forward = results_of("strata::rms_norm", call);
    const Tensor& x = call[0].toTensor();
    samples.calls.push_back({torch::randn_like(x), x, call[1], forward[1]});
  }
  return samples;
}

OperatorSamples attention() {
  const auto heads = [](int64_t count, int64_t tokens) { return some({2, count, tokens, 8}); };
  const Tensor keys = torch::rand({2, 9}) < 0.7;
  return {{{heads(3, 9), heads(3, 9), heads(3, 9), kNone, kNone, kNone, true, 0, 0.3, false},
           {heads(3, 5), heads(3, 9), heads(3, 9), kNone, kNone, keys, false, 0, 0.3, true},
           {heads(4, 9), heads(2, 9), heads(2, 9), some({2, 4, 9, 9}), kNone, kNone, false, 0, 0.3,
            false}}};
}

OperatorSamples attention_backward() {
  OperatorSamples samples;
  for (const Stack& call : attention().calls) {
    const Stack forward = results_of("strata::attention", call);
    Stack backward = {torch::randn_like(forward[0].toTensor()),
                      call[0],
                      call[1],
                      call[2],
                      forward[0],
                      forward[1]};
    backward.insert(backward.end(), call.begin() + 3, call.end());
    samples.calls.push_back(std::move(backward));
  }
  return samples;
}

IValue list_of(std::vector<Tensor> tensors) {
  return c10::List<Tensor>(c10::ArrayRef<Tensor>(tensors));
}

OperatorSamples projections() {
  return {{{some({6, 10}), list_of({some({10, 4}), some({10, 4}), some({10, 8})}),
            list_of({some({4}), some({4}), some({8})})},
           {some({6, 10}), list_of({some({10, 4}), some({10, 4})}), list_of({})}}};
}

OperatorSamples projections_backward() {
  const Tensor x = some({6, 10});
  const IValue gradients = list_of({some({6, 4}), some({6, 8})});
  const IValue weights = list_of({some({10, 4}), some({10, 8})});
  return {{{gradients, x, weights, true, true}, {gradients, x, weights, false, false}}};
}

/// 3 sequences of 5, 3 and 2 steps.
const std::vector<int64_t> kSizes = {3, 3, 2, 1, 1};

OperatorSamples lstm() {
  const Tensor words = torch::tensor({1, 2, 1, 2, 2, 1, 1, 1, 2, 7}, at::kLong);
  return {{{some({10, 6}), some({3, 8}), some({3, 8}), some({6, 32}), some({8, 32}), some({32}),
            kNone, kSizes, kNone},
           {some({8, 6}).index_select(0, words), some({3, 8}), some({3, 8}), some({6, 32}),
            some({8, 32}), kNone, kNone, kSizes, words}}};
}

/// Rows with equal words are equal.
OperatorSamples recurrent_inputs_backward() {
  const Tensor few = torch::tensor({3, 5, 3, 3, 8, 5}, at::kLong);
  const Tensor many = torch::arange(6);
  const auto x = [](const Tensor& words) { return some({9, 4}).index_select(0, words); };
  return {{{some({6, 12}), x(few), some({4, 12}), few, false, true},
           {some({6, 12}), x(few), some({4, 12}), few, true, false},
           {some({6, 12}), kNone, some({4, 12}), few, false, true},
           {some({6, 12}), x(few), kNone, few, false, true},
           {some({6, 12}), x(many), some({4, 12}), many, true, true}}};
}

OperatorSamples lstm_backward() {
  const Stack call = lstm().calls[0];
  const Stack forward = results_of("strata::lstm", call);
  return {{{some({10, 8}), some({3, 8}), some({3, 8}), forward[0], forward[1], forward[2], call[4],
            kNone, kSizes, true}}};
}

OperatorSamples gru() {
  return {{{some({10, 6}), some({3, 8}), some({6, 24}), some({8, 24}), some({24}), some({24}),
            kNone, kSizes, false, kNone},
           {some({10, 6}), some({3, 8}), some({6, 24}), some({8, 24}), kNone, kNone, kNone, kSizes,
            true, kNone}}};
}

OperatorSamples gru_backward() {
  OperatorSamples samples;
  for (const Stack& call : gru().calls) {
    const Stack forward = results_of("strata::gru", call);
    samples.calls.push_back({some({10, 8}), some({3, 8}), forward[0], forward[1], forward[2],
                             call[3], kNone, kSizes, call[8], true});
  }
  return samples;
}

OperatorSamples softmax_cross_entropy() {
  const Tensor labels = torch::randint(0, 7, {5, 3}, at::kLong);
  return {{{some({5, 3, 7}), labels, kNone, true},
           {some({5, 3, 7}), labels, 2, true},
           {some({5, 3, 7}).to(at::kDouble), labels.to(at::kByte), kNone, false}}};
}

OperatorSamples scale_rows() {
  return {{{some({5, 7}), some({5})}, {some({5, 7}), torch::tensor(0.25).expand({5})}}};
}

OperatorSamples scaled_sum() {
  return {{{some({13, 3}), 39.0}, {some({7}).to(at::kDouble), 2.0}, {some({0}), 1.0}}};
}

OperatorSamples scaled_sum_backward() { return {{{some({}), std::vector<int64_t>{13, 3}, 39.0}}}; }

OperatorSamples add_to_mean() {
  const auto sum = [](double value) { return torch::tensor(value, at::kDouble); };
  return {{{sum(1), sum(2), some({9}), kNone, 1.0},
           {sum(1), sum(2), some({4, 5}), torch::rand({4, 5}), 5.0},
           {sum(0), sum(0), some({9}).to(at::kDouble), kNone, 3.0}}};
}

OperatorSamples argmax_matches() {
  return {{{torch::randint(0, 6, {40}, at::kLong), some({40, 6})}}};
}

}  // namespace

const std::map<std::string, std::function<OperatorSamples()>>& operator_samples() {
  static const std::map<std::string, std::function<OperatorSamples()>> all = {
      {"strata::add_to_mean_", add_to_mean},
      {"strata::addmm_backward", addmm_backward},
      {"strata::argmax_matches", argmax_matches},
      {"strata::attention", attention},
      {"strata::attention_backward", attention_backward},
      {"strata::batch_norm_of_planes", batch_norm},
      {"strata::batch_norm_of_planes_backward", batch_norm_backward},
      {"strata::gru", gru},
      {"strata::gru_backward", gru_backward},
      {"strata::half_addmm_backward", half_addmm_backward},
      {"strata::layer_norm_of_sum", layer_norm_of_sum},
      {"strata::layer_norm_of_sum_backward", layer_norm_of_sum_backward},
      {"strata::lstm", lstm},
      {"strata::lstm_backward", lstm_backward},
      {"strata::projections", projections},
      {"strata::projections_backward", projections_backward},
      {"strata::recurrent_inputs_backward", recurrent_inputs_backward},
      {"strata::rms_norm", rms_norm},
      {"strata::rms_norm_backward", rms_norm_backward},
      {"strata::scale_rows", scale_rows},
      {"strata::scale_rows_", scale_rows},
      {"strata::scaled_sum", scaled_sum},
      {"strata::scaled_sum_backward", scaled_sum_backward},
      {"strata::softmax_cross_entropy", softmax_cross_entropy},
  };
  return all;
}

}  // namespace strata::test
