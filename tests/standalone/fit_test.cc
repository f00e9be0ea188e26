// Keras's fit on servers that have no model code.
#include <gtest/gtest.h>

#include <ATen/ops/arange.h>

#include <string>
#include <utility>
#include <vector>

#include "standalone/programs.h"
#include "standalone/servers.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/metrics.h"
#include "strata/keras/sequential.h"
#include "strata/keras/training.h"

namespace strata {
namespace {

struct Fitted {
  std::string weights;  // SHA-256
  double loss = 0;      // of the last epoch
  double accuracy = 0;  // of evaluate
  at::Tensor predictions;
};

Fitted fit(Strategy& strategy, int64_t steps_per_execution, const std::string& dtype = "float32") {
  torch::manual_seed(3);
  keras::Model model = strategy.scope([&] {
    keras::Sequential made({layers::Dense(16, {.activation = "relu", .dtype = dtype}),
                            layers::Dropout(0.2), layers::Dense(3, {.dtype = dtype})});
    made.compile({.optimizer = optimizers::Adam({.learning_rate = 0.01}),
                  .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                  .metrics = {metrics::SparseCategoricalAccuracy()},
                  .steps_per_execution = steps_per_execution});
    return keras::Model(made);
  });
  const at::Tensor x = (at::arange(80 * 7, at::kFloat) * 0.13).sin().reshape({80, 7});
  const at::Tensor y = (at::arange(80, at::kLong) * 5 + 1).remainder(3);
  const auto batches = data::Dataset::from_tensor_slices(data::Example{x, y}).batch(16);
  const keras::History history = model.fit(batches, {.epochs = 3, .verbose = 0});
  return {.weights = tensor::fingerprint(model->get_weights()),
          .loss = history.history.at("loss").back(),
          .accuracy = model.evaluate(batches, {.verbose = 0}).at("sparse_categorical_accuracy"),
          .predictions = model.predict(batches, {.verbose = 0})};
}

TEST(StandaloneFitTest, HasTheBitsOfOneProcess) {
  MirroredStrategy here({.devices = {"cpu:0", "cpu:1"}, .seed = test::kSeed});
  const Fitted expected = fit(here, 1);
  const test::StandaloneServers servers(2);
  MirroredStrategy there(test::client_of(servers.addresses()));
  const Fitted fitted = fit(there, 2);  // each step is a run of the servers
  EXPECT_EQ(fitted.weights, expected.weights);
  EXPECT_NEAR(fitted.loss, expected.loss, 1e-6);  // the mean is added by other operators
  EXPECT_EQ(fitted.accuracy, expected.accuracy);
  EXPECT_TRUE(fitted.predictions.equal(expected.predictions));
  there.close();
}

TEST(StandaloneFitTest, MixedBfloat16HasTheBitsOfOneProcess) {
  MirroredStrategy here({.devices = {"cpu:0", "cpu:1"}, .seed = test::kSeed});
  const Fitted expected = fit(here, 1, "mixed_bfloat16");
  const test::StandaloneServers servers(2);
  MirroredStrategy there(test::client_of(servers.addresses()));
  const Fitted fitted = fit(there, 1, "mixed_bfloat16");
  EXPECT_EQ(fitted.weights, expected.weights);
  EXPECT_TRUE(fitted.predictions.equal(expected.predictions));
  there.close();
}

}  // namespace
}  // namespace strata
