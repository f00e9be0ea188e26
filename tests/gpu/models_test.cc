// Models as people train them: residual blocks, MNIST, noise, Keras's fit.

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <string>
#include <vector>

#include "gpu/gpus.h"
#include "parity/noisy_net.h"
#include "runtime/replica_group.h"
#include "strata/checkpoint/checkpoint.h"
#include "strata/data/mnist.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/metrics.h"
#include "strata/keras/sequential.h"
#include "strata/strategies/one_device_strategy.h"
#include "strata/tensor/fingerprint.h"
#include "support/temp_folder.h"

namespace strata::parity {
namespace {

using test::logical_gpus;

/// Two blocks of a ResNet, the second with a stride and a projection, in float64.
class ResidualNet : public torch::nn::Module {
 public:
  ResidualNet() {
    to(at::kDouble);
    set_weights(*this, 0.3);
  }

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor h = at::relu(norm_->forward(stem_(x)));
    h = at::relu(h + norm_2_->forward(conv_2_(at::relu(norm_1_->forward(conv_1_(h))))));
    h = at::relu(project_(h) + norm_4_->forward(conv_4_(at::relu(norm_3_->forward(conv_3_(h))))));
    return out_(h.mean(at::IntArrayRef{2, 3}));
  }

 private:
  torch::nn::Conv2d conv(const std::string& name, int64_t in, int64_t out, int64_t stride = 1,
                         int64_t kernel = 3) {
    return register_module(name, torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel)
                                                       .stride(stride)
                                                       .padding(kernel / 2)
                                                       .bias(false)));
  }
  SyncBatchNorm norm(const std::string& name, int64_t channels) {
    return register_module(name, SyncBatchNorm(SyncBatchNormOptions(channels)));
  }

  torch::nn::Conv2d stem_ = conv("stem", 2, 6);
  SyncBatchNorm norm_ = norm("norm", 6);
  torch::nn::Conv2d conv_1_ = conv("conv_1", 6, 6), conv_2_ = conv("conv_2", 6, 6);
  SyncBatchNorm norm_1_ = norm("norm_1", 6), norm_2_ = norm("norm_2", 6);
  torch::nn::Conv2d conv_3_ = conv("conv_3", 6, 8, 2), conv_4_ = conv("conv_4", 8, 8);
  SyncBatchNorm norm_3_ = norm("norm_3", 8), norm_4_ = norm("norm_4", 8);
  torch::nn::Conv2d project_ = conv("project", 6, 8, 2, 1);
  torch::nn::Linear out_ = register_module("out", torch::nn::Linear(8, 4));
};

/// 784-64-10, in float64.
class Digits : public torch::nn::Module {
 public:
  Digits() {
    to(at::kDouble);
    set_weights(*this, 0.05);
  }
  at::Tensor forward(const at::Tensor& x) { return out_(at::relu(hidden_(x.flatten(1)))); }

 private:
  torch::nn::Linear hidden_ = register_module("hidden", torch::nn::Linear(784, 64));
  torch::nn::Linear out_ = register_module("out", torch::nn::Linear(64, 10));
};

/// Weights, moving statistics and slots after an epoch.
template <typename Model>
std::vector<at::Tensor> train(Strategy& strategy, const Batches& batches) {
  const auto net = strategy.replicate([] { return std::make_shared<Model>(); });
  optimizers::SGD sgd(net.variables(), {.learning_rate = 0.05, .momentum = 0.9});
  size_t step = 0;
  for (const auto& batch : strategy.distribute(as_dataset(batches))) {
    const int64_t rows = batches[step++].num_rows();
    strategy.run(
        [&](const data::Example& part) {
          sgd.minimize(
              compute_average_loss(losses::sparse_categorical_crossentropy(
                                       part.y(), net->forward(part.x()), {.from_logits = true}),
                                   rows));
        },
        batch);
  }
  std::vector<at::Tensor> state;
  for (const auto& variables : {net.variables(), net.buffers()}) {
    for (const Variable& variable : variables) state.push_back(variable.value().detach().clone());
  }
  for (const auto& [name, slot] : sgd.slots()) state.push_back(slot.clone());
  return state;
}

template <typename Model>
void expect_parity(const Batches& batches) {
  OneDeviceStrategy cpu({.device = "cpu:0", .replicas = {.threads_per_replica = 1}});
  const std::vector<at::Tensor> expected = train<Model>(cpu, batches);
  OneDeviceStrategy one({.device = "gpu:0"});
  EXPECT_LE(difference(train<Model>(one, batches), expected), 1e-7);
  for (const int replicas : {2, 4}) {
    MirroredStrategy many({.devices = logical_gpus(replicas)});
    EXPECT_LE(difference(train<Model>(many, batches), expected), 1e-7) << replicas;
  }
}

class GpuModelsTest : public test::GpuTest {};

TEST_F(GpuModelsTest, ResidualBlocksEqualOneCpus) {
  Batches batches = make_batches(Kind::kCnn, at::kDouble, 10, {13, 16, 11});
  expect_parity<ResidualNet>(batches);
}

TEST_F(GpuModelsTest, MnistEqualsOneCpus) {
  const data::Mnist mnist = data::load_mnist();
  Batches batches;
  for (int64_t i = 0; i < 20; ++i) {
    batches.push_back({mnist.train.x().narrow(0, 64 * i, 63).to(at::kDouble) / 255,
                       mnist.train.y().narrow(0, 64 * i, 63)});
  }
  expect_parity<Digits>(batches);
}

/// Of all replicas' state after training with dropout and BatchNormalization of both kinds.
std::string hash_after_noise(const std::vector<std::string>& devices) {
  MirroredStrategy strategy({.devices = devices, .seed = 5});
  const auto net = strategy.replicate([] { return std::make_shared<NoisyNet>(); });
  optimizers::Adam adam(net.variables(), {.learning_rate = 0.01});
  const Batches batches = make_batches(Kind::kCnn, at::kFloat, 10, {20, 24, 17});
  for (const auto& batch : strategy.distribute(as_dataset(batches))) {
    strategy.run(
        [&](const data::Example& part) {
          train_step(*net, adam, part, part.num_rows(), Form::kWeight);
        },
        batch);
  }
  std::vector<at::Tensor> state;
  for (const auto& variables : {net.variables(), net.buffers()}) {
    for (const Variable& variable : variables) {
      for (int r = 0; r < strategy.num_replicas_in_sync(); ++r) {
        state.push_back(variable.on_replica(r).detach().cpu());
      }
    }
  }
  for (const auto& [name, slot] : adam.slots()) state.push_back(slot.cpu());
  return tensor::fingerprint(state);
}

TEST_F(GpuModelsTest, NoiseIsTheReplicasNotTheCards) {
  at::globalContext().setDeterministicCuDNN(true);
  const std::string expected = hash_after_noise(logical_gpus(2));
  EXPECT_EQ(hash_after_noise(logical_gpus(2)), expected);
  EXPECT_NE(hash_after_noise(logical_gpus(4)), expected);
  set_logical_devices("gpu:0", 1);
  if (test::num_gpus() > 1) {
    EXPECT_EQ(hash_after_noise({"gpu:0", "gpu:1"}), expected);
  }
  at::globalContext().setDeterministicCuDNN(false);
}

TEST_F(GpuModelsTest, GpusAreTheDefault) {
  MirroredStrategy strategy;
  ASSERT_EQ(strategy.num_replicas_in_sync(), test::num_gpus());
  EXPECT_TRUE(strategy.group().device(0).physical.is_cuda());
}

keras::Model make_model() {
  keras::Sequential model(keras::Input({28, 28}),
                          {layers::Flatten(), layers::Dense(32, "relu"), layers::Dense(10)});
  model.compile({.optimizer = optimizers::Adam({.learning_rate = 0.01}),
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {metrics::SparseCategoricalAccuracy()}});
  return model;
}

TEST_F(GpuModelsTest, FitThenSaveAndGoOnOnTheCpu) {
  const data::Mnist mnist = data::load_mnist();
  const auto train = mnist.train_dataset().take(4096).batch(64);
  const auto test = mnist.test_dataset().take(1000).batch(200);
  const test::TempFolder folder;
  double on_gpus = 0;
  {
    MirroredStrategy strategy({.devices = logical_gpus(2), .seed = 1});
    const keras::Model model = strategy.scope(make_model);
    model.fit(train, {.epochs = 1, .verbose = 0});
    on_gpus = model.evaluate(test, {.verbose = 0}).at("sparse_categorical_accuracy");
    EXPECT_GT(on_gpus, 0.8);
    Checkpoint({{"model", model}}).write(folder.path() + "/saved");
  }
  OneDeviceStrategy strategy({.device = "cpu:0"});
  const keras::Model model = strategy.scope(make_model);
  Checkpoint({{"model", model}}).read(folder.path() + "/saved").assert_consumed();
  EXPECT_NEAR(model.evaluate(test, {.verbose = 0}).at("sparse_categorical_accuracy"), on_gpus,
              2e-3);
}

}  // namespace
}  // namespace strata::parity
