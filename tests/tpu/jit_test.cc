// jit_compile: functions and fit compiled for one device of XLA's compiler for CPUs, beside the steps as they
// are written.
#include <torch/torch.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "strata/graph/function.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/metrics.h"
#include "strata/keras/sequential.h"
#include "strata/keras/training.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/expect_error.h"
#include "support/log_lines.h"
#include "support/test_devices.h"
#include "tpu/cores.h"

namespace strata {
namespace {

using at::Tensor;

constexpr double kSameNumbers = 1e-12;

class JitTest : public testing::Test {
 protected:
  void SetUp() override { STRATA_NEEDS_PJRT_PLUGIN(); }
};

void expect_near(const Tensor& a, const Tensor& b) {
  EXPECT_LE((a - b).abs().max().item<double>(), kSameNumbers);
}

/// Batch normalization, which writes buffers, between two layers.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("first", first);
    register_module("norm", norm);
    register_module("second", second);
    to(torch::kDouble);
  }
  Tensor forward(const Tensor& x) { return second(torch::relu(norm(first(x)))); }
  torch::nn::Linear first{5, 8};
  torch::nn::BatchNorm1d norm{8};
  torch::nn::Linear second{8, 3};
};
TORCH_MODULE(Net);

/// What the program has behind each step.
std::vector<Tensor> train_net(bool jit_compile) {
  torch::manual_seed(1);
  Net net;
  std::vector<Variable> variables;
  for (const Tensor& each : net->parameters()) variables.emplace_back(each);
  optimizers::Adam adam(variables,
                        {.learning_rate = schedules::ExponentialDecay{
                             .initial_learning_rate = 0.05, .decay_steps = 2, .decay_rate = 0.9}});
  Tensor count = torch::zeros({}, torch::kLong);
  const auto step = function(
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = torch::mse_loss(net->forward(x), y);
        adam.minimize(loss);
        count += 1;
        return loss.detach();
      },
      {.jit_compile = jit_compile});
  std::vector<Tensor> seen;
  for (int i = 0; i < 6; ++i) {
    const Tensor x = torch::sin(torch::arange(20, torch::kDouble) * 0.3 + i).reshape({4, 5});
    const Tensor y = torch::cos(torch::arange(12, torch::kDouble) * 0.7 + i).reshape({4, 3});
    seen.push_back(step(x, y).clone());
    if (i == 3) {  // what the program writes counts in the next step
      const at::NoGradGuard no_grad;
      variables[0].assign(variables[0].value() * 0.5);
    }
    for (const Variable& each : variables) seen.push_back(each.value().detach().clone());
    for (const Tensor& each : net->buffers()) seen.push_back(each.to(torch::kDouble).clone());
    seen.push_back(count.to(torch::kDouble).clone());
  }
  for (const auto& [name, slot] : adam.slots()) seen.push_back(slot.clone());
  seen.push_back(torch::tensor(static_cast<double>(adam.iterations())));
  return seen;
}

TEST_F(JitTest, AFunctionHasTheNumbersOfTheStep) {
  const std::vector<Tensor> expected = train_net(false);
  const std::vector<Tensor> compiled = train_net(true);
  ASSERT_EQ(compiled.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) expect_near(compiled[i], expected[i]);
}

struct FitResult {
  std::vector<Tensor> weights;
  double loss = 0, accuracy = 0;
  Tensor predictions;
};

FitResult fit_net(bool jit_compile) {
  torch::manual_seed(2);
  keras::Sequential model(
      keras::Input({7}),
      {layers::Dense(16, {.activation = "relu", .dtype = "float64"}),
       layers::BatchNormalization({.dtype = "float64"}), layers::Dense(3, {.dtype = "float64"})});
  model.compile({.optimizer = optimizers::Adam({.learning_rate = 0.01}),
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {metrics::SparseCategoricalAccuracy()},
                 .jit_compile = jit_compile});
  const Tensor x = (at::arange(50 * 7, at::kDouble) * 0.13).sin().reshape({50, 7});
  const Tensor y = (at::arange(50, at::kLong) * 5 + 1).remainder(3);
  const auto batches = data::Dataset::from_tensor_slices(data::Example{x, y}).batch(16);
  const keras::History history = model.fit(batches, {.epochs = 3, .verbose = 0});
  return {.weights = model->get_weights(),
          .loss = history.history.at("loss").back(),
          .accuracy = model.evaluate(batches, {.verbose = 0}).at("sparse_categorical_accuracy"),
          .predictions = model.predict(batches, {.verbose = 0})};
}

TEST_F(JitTest, FitHasTheNumbersOfFit) {
  const FitResult expected = fit_net(false);
  test::LogLines log;
  const FitResult compiled = fit_net(true);
  EXPECT_EQ(log.text(), "");
  ASSERT_EQ(compiled.weights.size(), expected.weights.size());
  for (size_t i = 0; i < expected.weights.size(); ++i) {
    expect_near(compiled.weights[i], expected.weights[i]);
  }
  EXPECT_NEAR(compiled.loss, expected.loss, 1e-6);
  EXPECT_EQ(compiled.accuracy, expected.accuracy);
  expect_near(compiled.predictions, expected.predictions);
}

TEST_F(JitTest, SeveralReplicasAreRefused) {
  MirroredStrategy strategy({.devices = test::test_devices(2)});
  const auto step = function([](const Tensor& x) { return x + 1; }, {.jit_compile = true});
  expect_error_containing([&] { strategy.run(step, torch::ones({2})); }, ErrorCode::kUnimplemented,
                          "got 2 replicas");
  MirroredStrategy one({.devices = test::test_devices(1)});
  EXPECT_TRUE(one.run(step, torch::ones({2})).get(0).equal(torch::full({2}, 2.0)));
}

TEST_F(JitTest, AnOperatorWithoutARuleIsNamed) {
  const auto step = function([](const Tensor& x) { return torch::linalg_inv(x); },
                             {.name = "inverse", .jit_compile = true});
  expect_error_containing([&] { step(torch::eye(3)); }, ErrorCode::kUnimplemented, "inverse");
}

TEST_F(JitTest, RandomNumbersAreDrawnAnew) {
  const auto step =
      function([](const Tensor& x) { return torch::rand_like(x); }, {.jit_compile = true});
  const Tensor first = step(torch::zeros({50}));
  const Tensor second = step(torch::zeros({50}));
  EXPECT_FALSE(first.equal(second));
  EXPECT_GE(first.min().item<float>(), 0);
  EXPECT_LT(first.max().item<float>(), 1);
}

}  // namespace
}  // namespace strata
