// Keras's fit on TPUStrategy: virtual devices of XLA's compiler for CPUs.
#include <torch/torch.h>

#include <cmath>
#include <string>
#include <vector>

#include "strata/data/mnist.h"
#include "strata/keras/constraints.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/metrics.h"
#include "strata/keras/sequential.h"
#include "strata/keras/training.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/tensor/fingerprint.h"
#include "support/test_devices.h"
#include "tpu/cores.h"

namespace strata {
namespace {

constexpr int kFitReplicas = 4;

MirroredStrategy fit_here() {
  return MirroredStrategy({.devices = test::test_devices(kFitReplicas), .seed = 1});
}
TPUStrategy fit_on_cores() {
  return TPUStrategy(test::cores(), {.num_replicas = kFitReplicas, .seed = 1});
}

keras::Model made(
    Strategy& strategy, const std::string& dtype, int64_t steps_per_execution,
    const optimizers::AnyOptimizer& optimizer = optimizers::Adam({.learning_rate = 0.01})) {
  return strategy.scope([&] {
    keras::Sequential model({layers::Dense(16, {.activation = "tanh", .dtype = dtype}),
                             layers::Dense(16, {.activation = "relu", .dtype = dtype}),
                             layers::Dense(3, {.dtype = dtype})});
    model->ensure_built({{keras::kNone, 7}});
    std::vector<at::Tensor> weights;
    for (const at::Tensor& each : model->get_weights()) {
      weights.push_back((at::arange(each.numel(), at::kDouble) * 0.37)
                            .sin()
                            .mul(0.4)
                            .reshape(each.sizes())
                            .to(each.scalar_type()));
    }
    model->set_weights(weights);
    model.compile({.optimizer = optimizer,
                   .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                   .metrics = {metrics::SparseCategoricalAccuracy()},
                   .steps_per_execution = steps_per_execution});
    return keras::Model(model);
  });
}

/// Rows of which the last batch has fewer than the others, and not as many for each replica.
data::Dataset rows(int64_t count, at::ScalarType dtype) {
  const at::Tensor x = (at::arange(count * 7, at::kDouble) * 0.13).sin().reshape({count, 7});
  const at::Tensor y = (at::arange(count, at::kLong) * 5 + 1).remainder(3);
  return data::Dataset::from_tensor_slices(data::Example{x.to(dtype), y}).batch(16);
}

/// float64 by two libraries.
void expect_same(const std::vector<at::Tensor>& weights, const std::vector<at::Tensor>& on_cores) {
  ASSERT_EQ(weights.size(), on_cores.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_LE((weights[i] - on_cores[i]).abs().max().item<double>(), 1e-12) << i;
  }
}

TEST(TpuFitTest, HasTheWeightsAndLogsOfMirroredStrategy) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const auto run = [](Strategy& strategy) {
    keras::Model model = made(strategy, "float64", 1);
    const keras::History history =
        model.fit(rows(73, at::kDouble),
                  {.epochs = 3, .validation_data = rows(21, at::kDouble), .verbose = 0});
    return std::pair(model->get_weights(), history.history);
  };
  MirroredStrategy one = fit_here();
  TPUStrategy other = fit_on_cores();
  const auto [weights, logs] = run(one);
  const auto [weights_on_cores, logs_on_cores] = run(other);
  expect_same(weights, weights_on_cores);
  ASSERT_EQ(logs.size(), logs_on_cores.size());
  for (const auto& [name, values] : logs) {
    for (size_t epoch = 0; epoch < values.size(); ++epoch) {
      EXPECT_NEAR(values[epoch], logs_on_cores.at(name)[epoch], 1e-6) << name << " " << epoch;
    }
  }
}

/// Products of bfloat16; weights, their gradients and the optimizer in float32.
TEST(TpuFitTest, MixedBfloat16) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const auto run = [](Strategy& strategy, const std::string& dtype) {
    keras::Model model = made(strategy, dtype, 1, optimizers::SGD({.learning_rate = 0.5}));
    model.fit(rows(64, at::kFloat), {.epochs = 3, .verbose = 0});
    return model->get_weights();
  };
  MirroredStrategy one = fit_here();
  TPUStrategy other = fit_on_cores();
  const auto weights = run(one, "mixed_bfloat16");
  const auto in_floats = run(one, "float32");
  const auto on_cores = run(other, "mixed_bfloat16");
  const auto distance = [](const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]).square().sum().item<double>();
    return std::sqrt(sum);
  };
  for (const at::Tensor& each : on_cores) EXPECT_EQ(each.scalar_type(), at::kFloat);
  // A dense layer is a product and a sum there, each rounded; here they are rounded once.
  const double rounding = distance(weights, in_floats);
  EXPECT_GT(distance(on_cores, in_floats), rounding / 3);
  EXPECT_LT(distance(on_cores, weights), 3 * rounding);
  // Products of old weights would be as far away as training goes.
  EXPECT_GT(distance(weights, made(one, "float32", 1)->get_weights()), 20 * rounding);
}

/// Words, some of which are padding: masks, an embedding that is used twice, constraints.
TEST(TpuFitTest, RecurrentLayersBehindAMask) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const auto run = [](Strategy& strategy) {
    torch::manual_seed(3);
    keras::Model model = strategy.scope([&] {
      const keras::DTypePolicy dtype = "float64";
      const auto words = keras::Input({5}, {.dtype = at::kLong});
      const layers::Embedding embedding(20, 6, {.mask_zero = true, .dtype = dtype});
      auto x = layers::Add({.dtype = dtype})({embedding(words), embedding(words)});
      x = layers::LSTM(4, {.return_sequences = true, .dtype = dtype})(x);
      x = layers::GRU(3, {.dtype = dtype})(x);
      keras::Model made(
          words, layers::Dense(3, {.kernel_constraint = constraints::MaxNorm({.max_value = 0.5}),
                                   .dtype = dtype})(x));
      made.compile({.optimizer = optimizers::Adam({.learning_rate = 0.02}),
                    .loss = losses::SparseCategoricalCrossentropy({.from_logits = true})});
      return made;
    });
    at::Tensor x = (at::arange(32 * 5, at::kLong) * 7 + 3).remainder(19).add(1).reshape({32, 5});
    for (int64_t i = 0; i < 32; ++i) x[i].slice(0, i % 6).zero_();
    const at::Tensor y = (at::arange(32, at::kLong) * 5 + 1).remainder(3);
    model.fit(data::Dataset::from_tensor_slices(data::Example{x, y}).batch(16),
              {.epochs = 2, .verbose = 0});
    return model->get_weights();
  };
  MirroredStrategy one = fit_here();
  TPUStrategy other = fit_on_cores();
  expect_same(run(one), run(other));
}

/// Convolutions, batch normalization over all replicas, pooling.
TEST(TpuFitTest, ConvolutionsAndSynchronizedBatchNormalization) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const auto run = [](Strategy& strategy) {
    keras::Model model = strategy.scope([&] {
      const keras::DTypePolicy dtype = "float64";
      keras::Sequential made({layers::Conv2D(4, 3, {.dtype = dtype}),
                              layers::BatchNormalization({.synchronized = true, .dtype = dtype}),
                              layers::Activation("relu"), layers::MaxPooling2D(), layers::Flatten(),
                              layers::Dense(3, {.dtype = dtype})});
      made->ensure_built({{keras::kNone, 8, 8, 2}});
      std::vector<at::Tensor> weights = made->get_weights();
      for (size_t i = 0; i < weights.size(); ++i) {
        const at::Tensor wave = (at::arange(weights[i].numel(), at::kDouble) * 0.37).sin();
        if (i < 2 || i >= 6) weights[i] = wave.mul(0.4).reshape(weights[i].sizes());
      }
      made->set_weights(weights);
      made.compile({.optimizer = optimizers::SGD({.learning_rate = 0.05, .momentum = 0.9}),
                    .loss = losses::SparseCategoricalCrossentropy({.from_logits = true})});
      return keras::Model(made);
    });
    const at::Tensor x = (at::arange(48 * 128, at::kDouble) * 0.13).sin().reshape({48, 8, 8, 2});
    const at::Tensor y = (at::arange(48, at::kLong) * 5 + 1).remainder(3);
    model.fit(data::Dataset::from_tensor_slices(data::Example{x, y}).batch(20),
              {.epochs = 2, .verbose = 0});
    return model->get_weights();
  };
  MirroredStrategy one = fit_here();
  TPUStrategy other = fit_on_cores();
  expect_same(run(one), run(other));
}

TEST(TpuFitTest, ALoopOnTheCoresHasTheBitsOfSingleSteps) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const auto run = [](int64_t steps_per_execution) {
    TPUStrategy strategy = fit_on_cores();
    keras::Model model = made(strategy, "float32", steps_per_execution);
    model.fit(rows(16 * 250 + 9, at::kFloat), {.verbose = 0});
    return tensor::fingerprint(model->get_weights());
  };
  EXPECT_EQ(run(1), run(100));
}

TEST(TpuFitTest, EvaluatesAndPredicts) {
  STRATA_NEEDS_PJRT_PLUGIN();
  MirroredStrategy one = fit_here();
  TPUStrategy other = fit_on_cores();
  keras::Model here = made(one, "float64", 1), there = made(other, "float64", 1);
  const auto data = rows(73, at::kDouble);
  EXPECT_NEAR(here.evaluate(data, {.verbose = 0}).at("loss"),
              there.evaluate(data, {.verbose = 0}).at("loss"), 1e-9);
  const at::Tensor a = here.predict(data, {.verbose = 0}), b = there.predict(data, {.verbose = 0});
  EXPECT_LE((a - b).abs().max().item<double>(), 1e-12);
}

TEST(TpuFitTest, MnistReaches97Percent) {
  STRATA_NEEDS_PJRT_PLUGIN();
  TPUStrategy strategy(test::cores(), {.seed = 1});
  torch::manual_seed(1);
  keras::Model model = strategy.scope([&] {
    keras::Sequential made({layers::Flatten(), layers::Dense(256, "relu"), layers::Dense(10)});
    made.compile({.optimizer = optimizers::Adam({.learning_rate = 2e-3}),
                  .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                  .metrics = {metrics::SparseCategoricalAccuracy()},
                  .steps_per_execution = 50});
    return keras::Model(made);
  });
  const auto mnist = data::load_mnist();
  model.fit(mnist.train_dataset().shuffle(60000).batch(256), {.epochs = 3, .verbose = 0});
  const double accuracy = model.evaluate(mnist.test_dataset().batch(1000), {.verbose = 0})
                              .at("sparse_categorical_accuracy");
  std::printf("MNIST on 8 virtual devices: test accuracy %.4f\n", accuracy);
  EXPECT_GE(accuracy, 0.97);
}

/// Draws are the compiler's own: what can be compared is that they are drawn.
TEST(TpuFitTest, LayersThatDraw) {
  STRATA_NEEDS_PJRT_PLUGIN();
  TPUStrategy strategy = fit_on_cores();
  keras::Sequential model = strategy.scope([] {
    keras::Sequential made(
        keras::Input({9, 8, 3}),
        {layers::RandomFlip(), layers::RandomCrop(7, 6), layers::RandomRotation(0.1),
         layers::RandomTranslation(0.2, 0.1), layers::RandomZoom(0.2),
         layers::RandomContrast(0.3, {.value_range = {-1, 1}}),
         layers::RandomBrightness(0.3, {.value_range = {-1, 1}}), layers::GaussianNoise(0.1),
         layers::Conv2D(4, 3, {.activation = "selu"}), layers::AlphaDropout(0.1),
         layers::SpatialDropout2D(0.2), layers::Flatten(), layers::GaussianDropout(0.1),
         layers::Dense(3)});
    // No update: a step's loss depends on what it draws alone.
    made.compile({.optimizer = optimizers::SGD({.learning_rate = 0.0}),
                  .loss = losses::SparseCategoricalCrossentropy({.from_logits = true})});
    return made;
  });
  const at::Tensor x = (at::arange(16 * 9 * 8 * 3, at::kFloat) * 0.17).sin().reshape({16, 9, 8, 3});
  const at::Tensor y = (at::arange(16, at::kLong) * 5 + 1).remainder(3);
  const auto batch = data::Dataset::from_tensor_slices(data::Example{x, y}).batch(16);
  const keras::History history = model.fit(batch, {.epochs = 4, .verbose = 0});
  const std::vector<double>& losses = history.history.at("loss");
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_TRUE(std::isfinite(losses[i]));
    if (i > 0) {
      EXPECT_NE(losses[i], losses[i - 1]);
    }
  }
}

}  // namespace
}  // namespace strata
