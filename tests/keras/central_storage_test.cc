// fit under CentralStorageStrategy, where Keras 3 reports a wrong loss and BatchNormalization
// raises: here all is as under MirroredStrategy.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/metrics.h"
#include "strata/keras/sequential.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/central_storage_strategy.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/mirrors_on_cpu.h"
#include "support/replicas.h"

namespace strata::keras {
namespace {

struct Outcome {
  std::vector<double> history;
  std::vector<at::Tensor> weights;
};

Outcome train(Strategy& strategy) {
  at::manual_seed(4);
  const at::Tensor ids = at::randint(20, {50, 3});
  const at::Tensor labels = ids.sum(1).remainder(3);
  const Model model = strategy.scope([] {
    Sequential net(
        Input({3}),
        {layers::Embedding(20, 6,
                           {.embeddings_initializer = initializers::RandomUniform({.seed = 1})}),
         layers::Flatten(),
         layers::Dense(
             8, {.use_bias = false, .kernel_initializer = initializers::HeNormal({.seed = 2})}),
         layers::BatchNormalization(), layers::Activation("relu"),
         layers::Dense(3, {.kernel_initializer = initializers::HeNormal({.seed = 3})})});
    net.compile({.optimizer = optimizers::Adam({.learning_rate = 0.01, .clipnorm = 1}),
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {metrics::SparseCategoricalAccuracy()}});
    return net;
  });
  const data::Dataset rows = data::Dataset::from_tensor_slices({ids, labels}).batch(16);
  Outcome outcome;
  const History history = model.fit(rows, {.epochs = 3, .verbose = 0});
  for (const char* name : {"loss", "sparse_categorical_accuracy"}) {
    for (const double value : history[name]) outcome.history.push_back(value);
  }
  outcome.history.push_back(model.evaluate(rows, {.verbose = 0}).at("loss"));
  for (const Weight& weight : model->weights())
    outcome.weights.push_back(weight.variable.value().detach().clone());
  return outcome;
}

TEST(CentralStorageFitTest, EqualsMirrored) {
  set_logical_devices("cpu", 4);
  MirroredStrategy mirrored(
      {.devices = cpus(3), .seed = 7, .replicas = {.threads_per_replica = 1}});
  CentralStorageStrategy central(
      {.compute_devices = cpus(3), .seed = 7, .replicas = {.threads_per_replica = 1}});
  MirrorsOnCpu mirrors(3);
  const Outcome expected = train(mirrored);
  const auto expect_near = [&](Strategy& strategy, double tolerance) {
    SCOPED_TRACE(strategy.name());
    const Outcome outcome = train(strategy);
    ASSERT_EQ(outcome.history.size(), expected.history.size());
    for (size_t i = 0; i < expected.history.size(); ++i)
      EXPECT_NEAR(outcome.history[i], expected.history[i], tolerance);
    ASSERT_EQ(outcome.weights.size(), expected.weights.size());
    for (size_t i = 0; i < expected.weights.size(); ++i) {
      const double most = (outcome.weights[i] - expected.weights[i]).abs().max().item<double>();
      EXPECT_LE(most, tolerance) << i;
    }
  };
  expect_near(central, 0);
  expect_near(mirrors, 1e-4);  // float32, the rule by operators
}

}  // namespace
}  // namespace strata::keras
