// Keras's fit on servers that have no model code.
#include <gtest/gtest.h>

#include <ATen/ops/arange.h>

#include <string>
#include <utility>
#include <vector>

#include "standalone/programs.h"
#include "standalone/servers.h"
#include "strata/keras/constraints.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/metrics.h"
#include "strata/keras/regularizers.h"
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

/// Two epochs of `make`'s model. @return SHA-256 of the weights.
template <typename Make>
std::string weights_of(Strategy& strategy, const Make& make, const data::Dataset& batches) {
  torch::manual_seed(3);
  keras::Model model = strategy.scope([&] {
    keras::Model made = make();
    made.compile({.optimizer = optimizers::Adam({.learning_rate = 0.01}),
                  .loss = losses::SparseCategoricalCrossentropy({.from_logits = true})});
    return made;
  });
  model.fit(batches, {.epochs = 2, .verbose = 0});
  return tensor::fingerprint(model->get_weights());
}

/// On two servers the same as on two replicas of this process.
template <typename Make>
void expect_bits_of_one_process(const Make& make, const data::Dataset& batches) {
  MirroredStrategy here({.devices = {"cpu:0", "cpu:1"}, .seed = test::kSeed});
  const std::string expected = weights_of(here, make, batches);
  const test::StandaloneServers servers(2);
  MirroredStrategy there(test::client_of(servers.addresses()));
  EXPECT_EQ(weights_of(there, make, batches), expected);
  there.close();
}

/// Words of which 0 is padding: some sentences end early, one has no word.
data::Dataset sentences() {
  at::Tensor x = (at::arange(40 * 9, at::kLong) * 7 + 3).remainder(29).add(1).reshape({40, 9});
  for (int64_t i = 0; i < 40; ++i) x[i].slice(0, i % 10).zero_();
  const at::Tensor y = (at::arange(40, at::kLong) * 5 + 1).remainder(3);
  return data::Dataset::from_tensor_slices(data::Example{x, y}).batch(16);
}

TEST(StandaloneFitTest, RecurrentLayersBehindAMask) {
  const auto make = [] {
    return keras::Model(keras::Sequential(
        {layers::Embedding(30, 8, {.mask_zero = true}),
         layers::Bidirectional(layers::LSTM(6, {.return_sequences = true})), layers::GRU(5),
         layers::Dense(3, {.kernel_constraint = constraints::MaxNorm({.max_value = 0.5})})}));
  };
  expect_bits_of_one_process(make, sentences());
}

TEST(StandaloneFitTest, LayersThatDraw) {
  const auto make = [] {
    return keras::Model(keras::Sequential(
        keras::Input({9, 8, 3}),
        {layers::RandomFlip(), layers::RandomCrop(7, 6), layers::RandomRotation(0.1),
         layers::RandomTranslation(0.2, 0.1), layers::RandomZoom(0.2),
         layers::RandomContrast(0.3, {.value_range = {-1, 1}}),
         layers::RandomBrightness(0.3, {.value_range = {-1, 1}}), layers::GaussianNoise(0.1),
         layers::Conv2D(4, 3, {.activation = "selu"}), layers::AlphaDropout(0.1),
         layers::SpatialDropout2D(0.2), layers::Flatten(), layers::GaussianDropout(0.1),
         layers::Dense(3)}));
  };
  const at::Tensor x = (at::arange(40 * 9 * 8 * 3, at::kFloat) * 0.17).sin().reshape({40, 9, 8, 3});
  const at::Tensor y = (at::arange(40, at::kLong) * 5 + 1).remainder(3);
  expect_bits_of_one_process(make,
                             data::Dataset::from_tensor_slices(data::Example{x, y}).batch(16));
}

TEST(StandaloneFitTest, ASharedEmbeddingAndAttention) {
  const auto make = [] {
    const auto words = keras::Input({9}, {.dtype = at::kLong});
    const layers::Embedding embedding(
        30, 8, {.embeddings_regularizer = regularizers::L2(0.01), .mask_zero = true});
    const auto a = embedding(words), b = embedding(words);
    auto x = layers::MultiHeadAttention(2, 4)(a, b);
    x = layers::LayerNormalization()(layers::Add()({x, a}));
    x = layers::GlobalAveragePooling1D()(x);
    return keras::Model(words, layers::Dense(3)(x));
  };
  expect_bits_of_one_process(make, sentences());
}

TEST(StandaloneFitTest, ConvolutionsAndSynchronizedBatchNormalization) {
  const auto make = [] {
    return keras::Model(keras::Sequential(
        {layers::Conv2D(4, 3, {.use_bias = false}),
         layers::BatchNormalization({.synchronized = true}), layers::Activation("relu"),
         layers::SeparableConv2D(6, 3), layers::BatchNormalization(), layers::MaxPooling2D(),
         layers::Flatten(), layers::Dense(3)}));
  };
  const at::Tensor x = (at::arange(40 * 128, at::kFloat) * 0.13).sin().reshape({40, 8, 8, 2});
  const at::Tensor y = (at::arange(40, at::kLong) * 5 + 1).remainder(3);
  expect_bits_of_one_process(make,
                             data::Dataset::from_tensor_slices(data::Example{x, y}).batch(16));
}

}  // namespace
}  // namespace strata
