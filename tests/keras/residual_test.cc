// Residual blocks: normalization, sum and relu in one pass, and on replicas.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <string>
#include <vector>

#include "strata/core/str_cat.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/metrics.h"
#include "strata/keras/model.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/tensor/fingerprint.h"

namespace strata::keras {
namespace {

SymbolicTensor normalized(const SymbolicTensor& x, bool synchronized, const std::string& name) {
  return layers::BatchNormalization({.synchronized = synchronized, .name = name})(x);
}

/// What stands between normalizations and relu.
struct Block {
  SymbolicTensor input, beside, first, second, output;
};

/// A bottleneck with a projection, strides and an odd size, as ResNet has them.
Block make_block(bool synchronized) {
  const SymbolicTensor input = Input({13, 13, 16});
  SymbolicTensor beside = layers::Conv2D(32, 1, {.strides = 2, .name = "conv0"})(input);
  beside = normalized(beside, synchronized, "bn0");
  const SymbolicTensor first =
      normalized(layers::Conv2D(8, 1, {.strides = 2, .name = "conv1"})(input), synchronized, "bn1");
  SymbolicTensor x = layers::Activation("relu", {.name = "relu1"})(first);
  x = layers::Conv2D(32, 3, {.padding = "same", .name = "conv2"})(x);
  const SymbolicTensor second = normalized(x, synchronized, "bn2");
  x = layers::Add({.name = "add"})({beside, second});
  return {input, beside, first, second, layers::ReLU({.name = "relu2"})(x)};
}

Model classifier(bool synchronized) {
  const Block block = make_block(synchronized);
  const SymbolicTensor pooled = layers::GlobalAveragePooling2D({.name = "pool"})(block.output);
  Model model(block.input, layers::Dense(5, {.name = "dense"})(pooled));
  model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.05, .momentum = 0.9}),
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {metrics::SparseCategoricalAccuracy()}});
  return model;
}

data::Example images(int64_t rows) {
  at::manual_seed(8);
  return {at::randn({rows, 13, 13, 16}), at::randint(5, {rows})};
}

bool is_fused(const at::Tensor& output) {
  // The view in Keras's order stands before it.
  const auto node = output.grad_fn();
  return node != nullptr && node->num_outputs() > 0 && node->next_edge(0).is_valid() &&
         node->next_edge(0).function->name() == "BatchNormOfPlanesBackward";
}

void set_weights_alike(const Model& to, const Model& from) {
  const auto targets = to->weights();
  const auto sources = from->weights();
  ASSERT_EQ(targets.size(), sources.size());
  for (const Weight& target : targets) {
    for (const Weight& source : sources) {
      if (source.variable.name() == target.variable.name()) {
        Variable(target.variable).assign(source.variable.value());
      }
    }
  }
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>() / std::max(1.0, b.abs().max().item<double>());
}

TEST(ResidualTest, OnePassGivesWhatTheLayersGive) {
  const Block fused = make_block(false);
  const Model one(fused.input, fused.output, "one");
  // Values that somebody else wants too are made one by one.
  const Block apart = make_block(false);
  const Model each({apart.input}, {apart.output, apart.beside, apart.first, apart.second}, "each");
  set_weights_alike(each, one);
  const at::Tensor x = images(6).x();
  const auto gradients = [&](const Model& model) {
    const at::Tensor y = model->operator()({x}, {.training = true}).values.at(0);
    EXPECT_EQ(is_fused(y), model.name() == "one");
    Tensors weights;
    for (const Variable& variable : model->trainable_variables())
      weights.push_back(variable.value());
    Tensors all = torch::autograd::grad({y.square().sum()}, weights);
    all.push_back(y.detach());
    for (const Variable& variable : model->non_trainable_variables())
      all.push_back(variable.value());
    return all;
  };
  // The layers of the two models stand in the same order.
  const Tensors got = gradients(one);
  const Tensors want = gradients(each);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(difference(got[i], want[i]), 2e-5) << i;
}

TEST(ResidualTest, InferenceAndFrozenLayersAreNotFused) {
  const Block block = make_block(false);
  const Model model(block.input, block.output);
  const at::Tensor x = images(2).x();
  EXPECT_TRUE(is_fused(model->operator()({x}, {.training = true}).values.at(0)));
  EXPECT_FALSE(is_fused(model->operator()({x}, {.training = false}).values.at(0)));
  model.get_layer("bn2")->set_trainable(false);
  EXPECT_FALSE(is_fused(model->operator()({x}, {.training = true}).values.at(0)));
}

MirroredStrategy replicas(int count, int permits = 0) {
  set_logical_devices("cpu", count);
  std::vector<std::string> devices;
  for (int i = 0; i < count; ++i) devices.push_back(str_cat("cpu:", i));
  return MirroredStrategy(
      {.devices = devices, .seed = 3, .replicas = {.permits = permits, .threads_per_replica = 1}});
}

History train(const Model& model, const data::Example& rows) {
  return model.fit(data::Dataset::from_tensor_slices(rows).batch(12), {.epochs = 3, .verbose = 0});
}

TEST(ResidualTest, TwoReplicasTrainAsOneDevice) {
  const data::Example rows = images(40);  // the last batch is smaller
  const Model alone = classifier(/*synchronized=*/true);
  MirroredStrategy strategy = replicas(2);
  const Model shared = strategy.scope([] { return classifier(true); });
  set_weights_alike(shared, alone);
  const History want = train(alone, rows);
  const History got = train(shared, rows);
  for (const char* name : {"loss", "sparse_categorical_accuracy"}) {
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[name][i], want[name][i], 1e-4) << name << i;
  }
  const auto targets = shared->weights();
  const auto sources = alone->weights();
  for (size_t i = 0; i < targets.size(); ++i) {
    EXPECT_LT(difference(targets[i].variable.value(), sources[i].variable.value()), 1e-4)
        << targets[i].variable.name();
  }
}

TEST(ResidualTest, PermitsDoNotChangeABit) {
  const data::Example rows = images(40);
  const Model start = classifier(false);
  std::string expected;
  for (const int permits : {1, 2, 3}) {
    MirroredStrategy strategy = replicas(3, permits);
    const Model model = strategy.scope([] { return classifier(/*synchronized=*/false); });
    set_weights_alike(model, start);
    train(model, rows);
    Tensors state;
    for (const Weight& weight : model->weights()) {
      for (int r = 0; r < 3; ++r) state.push_back(weight.variable.on_replica(r).detach());
    }
    const std::string hash = tensor::fingerprint(state);
    if (expected.empty()) expected = hash;
    EXPECT_EQ(hash, expected) << permits;
  }
}

}  // namespace
}  // namespace strata::keras
