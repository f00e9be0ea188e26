#include "operators/operator_samples.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/torch.h>

#include <optional>
#include <utility>

#include "strata/core/json.h"
#include "tensor/rule_json.h"
#include "tensor/update_rule.h"

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

/// Arguments that are tensors of float, in bfloat16.
Stack in_bf16(Stack call, const std::vector<size_t>& which) {
  for (const size_t i : which) {
    if (call[i].isTensor()) call[i] = call[i].toTensor().to(at::kBFloat16);
  }
  return call;
}

OperatorSamples layer_norm_of_sum() {
  OperatorSamples samples = {
      {{some({6, 40}), some({6, 40}), some({40}), some({40}), 1, 1e-3},
       {some({2, 3, 17}), some({2, 3, 17}), kNone, kNone, 1, 1e-5},
       {some({5, 4, 6}), some({5, 4, 6}), some({4, 6}), some({4, 6}), 2, 1e-5}}};
  samples.halves = samples.calls.size();
  samples.calls.push_back(in_bf16(samples.calls[0], {0, 1}));
  return samples;
}

OperatorSamples layer_norm_of_sum_backward() {
  OperatorSamples samples;
  const OperatorSamples forwards = layer_norm_of_sum();
  samples.halves = 2 * forwards.halves;
  for (const Stack& call : forwards.calls) {
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
  OperatorSamples samples = {
      {{heads(3, 9), heads(3, 9), heads(3, 9), kNone, kNone, kNone, true, 0, 0.3, false},
       {heads(3, 5), heads(3, 9), heads(3, 9), kNone, kNone, keys, false, 0, 0.3, true},
       {heads(4, 9), heads(2, 9), heads(2, 9), some({2, 4, 9, 9}), kNone, kNone, false, 0, 0.3,
        false}}};
  samples.halves = samples.calls.size();
  for (const size_t i : {0, 2}) samples.calls.push_back(in_bf16(samples.calls[i], {0, 1, 2}));
  return samples;
}

OperatorSamples attention_backward() {
  OperatorSamples samples;
  const OperatorSamples forwards = attention();
  samples.halves = forwards.halves;
  for (const Stack& call : forwards.calls) {
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

/// A step as rules prepare it, of sizes that are no multiple of a block.
struct RuleCase {
  tensor::RuleOptions options;
  int64_t slots;
};

const std::vector<RuleCase>& rule_cases() {
  static const std::vector<RuleCase> cases = {
      {tensor::SGDRule{}, 0},
      {tensor::SGDRule{.momentum = 0.9, .nesterov = true}, 1},
      {tensor::AdamRule{}, 2},
      {tensor::AdamRule{.amsgrad = true}, 3},
      {tensor::RMSpropRule{.momentum = 0.5, .centered = true}, 3},
      {tensor::LegacyAdagradRule{}, 1},
      {tensor::LegacyRMSpropRule{.centered = true}, 2},
      {tensor::MovingAverageRule{}, 0},
      {tensor::LambRule{}, 2},
      {tensor::LARSRule{}, 1},
      {tensor::ScheduleFreeAdamWRule{}, 2},
  };
  return cases;
}

IValue constants_of(const tensor::UpdateRule& rule) {
  const tensor::PreparedStep step = rule.prepare({.learning_rate = 0.1, .iteration = 3});
  return c10::List<double>(std::vector<double>(step.constants.begin(), step.constants.end()));
}

IValue doubles(const std::vector<double>& values) { return c10::List<double>(values); }

std::vector<Tensor> positive(int64_t count, at::IntArrayRef sizes) {
  std::vector<Tensor> tensors;
  for (int64_t i = 0; i < count; ++i) tensors.push_back(torch::rand(sizes) + 0.5);
  return tensors;
}

/// Two variables: one of which a part is updated, by two gradients with one missing between them,
/// with copies; and one by one gradient.
OperatorSamples update() {
  OperatorSamples samples;
  for (const RuleCase& each : rule_cases()) {
    const auto rule = tensor::make_rule(each.options);
    const int64_t first = rule->whole_variables() ? 0 : 100;
    const int64_t end = rule->whole_variables() ? 1500 : 1400;
    std::vector<Tensor> slots = positive(each.slots, {30, 50});
    for (const Tensor& slot : positive(each.slots, {7})) slots.push_back(slot);
    const Tensor p = some({30, 50});
    samples.calls.push_back({tensor::rule_to_json(each.options).dump(), 0.1, constants_of(*rule),
                             0.8, list_of({p, some({7})}), std::vector<int64_t>{first, end, 0, 7},
                             list_of({some({30, 50}), some({0}), some({30, 50}), some({7})}),
                             std::vector<int64_t>{3, 1}, doubles({0.5, 1}), doubles({0.01, 0}),
                             list_of(slots), list_of({p.clone(), p.to(at::kBFloat16)}),
                             std::vector<int64_t>{2, 0}, false});
    const Tensor columns = some({20, 6}).t();  // lies in columns
    std::vector<Tensor> alike;
    for (const Tensor& slot : positive(each.slots, {20, 6})) alike.push_back(slot.t());
    samples.calls.push_back({tensor::rule_to_json(each.options).dump(), 0.1, constants_of(*rule),
                             0.0, list_of({columns}), std::vector<int64_t>{0, 120},
                             list_of({some({20, 6}).t()}), std::vector<int64_t>{1}, doubles({1}),
                             doubles({0}), list_of(alike), list_of({}), std::vector<int64_t>{0},
                             false});
  }
  samples.tolerance = 8e-3;  // the copy in bfloat16 is rounded from neighbours: 2^-7 apart
  return samples;
}

OperatorSamples update_rows() {
  OperatorSamples samples;
  for (const RuleCase& each : rule_cases()) {
    const auto rule = tensor::make_rule(each.options);
    const bool whole = rule->whole_variables();
    for (const bool touched_rows_only : {false, true}) {
      samples.calls.push_back(
          {tensor::rule_to_json(each.options).dump(), 0.1, constants_of(*rule), 0.0, some({9, 5}),
           std::vector<int64_t>{whole ? 0 : 7, whole ? 45 : 41},
           torch::tensor({0, 2, 3, 8}, at::kLong), some({4, 5}), 0.5, 0.0,
           list_of(positive(each.slots, {9, 5})), list_of({}), false, touched_rows_only});
    }
  }
  return samples;
}

OperatorSamples add_rows() {
  const auto rows = [](std::vector<int64_t> values) { return torch::tensor(values, at::kLong); };
  return {{{list_of({rows({4, 0, 4}), rows({7, 0})}), list_of({some({3, 5}), some({2, 5})})},
           {list_of({rows({3})}), list_of({some({1, 2, 3}).to(at::kDouble)})}}};
}

OperatorSamples add_gradients() {
  return {{{list_of({some({100, 90}), some({5})}), torch::zeros({4}, at::kDouble),
            list_of({some({100, 90}), some({0}), some({100, 90}), some({5})}),
            std::vector<int64_t>{3, 1}, 1, 2},
           {list_of({some({5})}), torch::ones({1}, at::kDouble), list_of({}),
            std::vector<int64_t>{0}, 0, 1}}};
}

OperatorSamples add_scaled_gradients() {
  return {{{list_of({some({50, 45}), some({5}), some({3})}),
            list_of({some({50, 45}), some({0}), some({50, 45}), some({5})}),
            std::vector<int64_t>{3, 1, 0}, doubles({0.5, 0.25, 1, 1, 1, 1}), false},
           {list_of({some({5})}), list_of({some({5})}), std::vector<int64_t>{1}, doubles({1, 1}),
            true}}};
}

OperatorSamples sums_of_blocks() {
  return {{{torch::rand({4}, at::kDouble), std::vector<int64_t>{9000, 5, 0}}}};
}

OperatorSamples sum_of_squares() {
  return {{{some({13, 7})}, {some({8}).to(at::kDouble)}, {some({0})}}};
}

Tensor channels(double least = 0) { return torch::rand({5}, at::kDouble) + least; }

OperatorSamples batch_moments() {
  return {{{some({6, 5})},
           {some({3, 5, 4, 3})},
           {some({3, 5, 4, 3}).contiguous(at::MemoryFormat::ChannelsLast)},
           {some({0, 5, 2})}}};
}

OperatorSamples join_moments() {
  return {{{channels(), channels(), 3.0, channels(), channels(), 5.0}}};
}

OperatorSamples normalize_channels() {
  return {{{some({6, 5}), channels(), channels(), channels()},
           {some({3, 5, 4}), channels(), channels(), channels()}}};
}

OperatorSamples channel_gradient_sums() {
  return {
      {{some({6, 5}), some({6, 5}), channels()}, {some({3, 5, 4}), some({3, 5, 4}), channels()}}};
}

OperatorSamples channel_input_gradient() {
  return {{{some({6, 5}), some({6, 5}), channels(), channels(), channels(), channels()},
           {some({3, 5, 4}), some({3, 5, 4}), channels(), channels(), channels(), channels()}}};
}

OperatorSamples argmax_matches() {
  return {{{torch::randint(0, 6, {40}, at::kLong), some({40, 6})}}};
}

}  // namespace

const std::map<std::string, std::function<OperatorSamples()>>& operator_samples() {
  static const std::map<std::string, std::function<OperatorSamples()>> all = {
      {"strata::add_gradients_", add_gradients},
      {"strata::add_rows", add_rows},
      {"strata::add_scaled_gradients_", add_scaled_gradients},
      {"strata::add_to_mean_", add_to_mean},
      {"strata::addmm_backward", addmm_backward},
      {"strata::argmax_matches", argmax_matches},
      {"strata::attention", attention},
      {"strata::attention_backward", attention_backward},
      {"strata::batch_moments", batch_moments},
      {"strata::batch_norm_of_planes", batch_norm},
      {"strata::batch_norm_of_planes_backward", batch_norm_backward},
      {"strata::channel_gradient_sums", channel_gradient_sums},
      {"strata::channel_input_gradient", channel_input_gradient},
      {"strata::gru", gru},
      {"strata::gru_backward", gru_backward},
      {"strata::half_addmm_backward", half_addmm_backward},
      {"strata::join_moments", join_moments},
      {"strata::layer_norm_of_sum", layer_norm_of_sum},
      {"strata::layer_norm_of_sum_backward", layer_norm_of_sum_backward},
      {"strata::lstm", lstm},
      {"strata::lstm_backward", lstm_backward},
      {"strata::normalize_channels", normalize_channels},
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
      {"strata::sum_of_squares", sum_of_squares},
      {"strata::sums_of_blocks", sums_of_blocks},
      {"strata::update_", update},
      {"strata::update_rows_", update_rows},
  };
  return all;
}

}  // namespace strata::test
