// A module with synchronized BatchNormalization and dropout, and a training loop of one's own.
//
//   build/release/examples/02_custom_loop [--epochs 2] [--devices 2] [--batch 128]
//
// prints, trained on 12800 images:
//   epoch 1/2: loss 0.3707
//   epoch 2/2: loss 0.1299
//   test accuracy 0.9734
//
// Batch statistics are those of the global batch, and dropout draws from each replica's own stream:
// the result depends on the number of replicas and the seed, not on cores or timing.
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>

#include "strata/runtime/sync_batch_norm.h"
#include "strata/strata.h"
#include "support/arguments.h"
#include "support/progress_bar.h"

using strata::data::Example;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("conv1", conv1);
    register_module("norm1", norm1);
    register_module("conv2", conv2);
    register_module("norm2", norm2);
    register_module("dropout", dropout);
    register_module("logits", logits);
  }
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = at::max_pool2d(at::relu(norm1(conv1(images.unsqueeze(1)))), 2);
    x = at::max_pool2d(at::relu(norm2(conv2(x))), 2);
    return logits(dropout(x.flatten(1)));
  }
  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, 8, 5)};
  torch::nn::Conv2d conv2{torch::nn::Conv2dOptions(8, 16, 3)};
  strata::SyncBatchNorm norm1{8}, norm2{16};
  torch::nn::Dropout dropout{0.25};
  torch::nn::Linear logits{16 * 5 * 5, 10};
};
TORCH_MODULE(Net);

void train(const examples::Arguments& arguments) {
  strata::MirroredStrategy strategy({.devices = arguments.devices, .seed = 1});
  torch::manual_seed(1);
  const auto mnist = strata::data::load_mnist();
  const auto dataset = mnist.train_dataset().take(12800).shuffle(12800).batch(arguments.batch);
  const auto batches = strategy.distribute(dataset);
  const auto net = strategy.replicate([] { return Net(); });
  strata::optimizers::SGD sgd(net.variables(), {.learning_rate = 0.05, .momentum = 0.9});

  for (int epoch = 1; epoch <= arguments.epochs; ++epoch) {
    examples::ProgressBar bar(strata::str_cat("epoch ", epoch, "/", arguments.epochs),
                              batches.cardinality());
    double total = 0;
    for (const auto& batch : batches) {
      const auto loss = strategy.run(
          [&](const Example& part) {
            const at::Tensor losses = strata::losses::sparse_categorical_crossentropy(
                part.y(), net->forward(part.x()), {.from_logits = true});
            const at::Tensor local = strata::compute_average_loss(losses, arguments.batch);
            sgd.minimize(local);
            return local.detach();
          },
          batch);
      total += strategy.reduce(strata::ReduceOp::kSum, loss).item<double>();
      bar.advance();
    }
    char line[40];
    const auto steps = static_cast<double>(batches.cardinality());
    std::snprintf(line, sizeof line, "loss %.4f", total / steps);
    bar.finish(line);
  }

  net->eval();  // holds for every replica
  std::vector<at::Tensor> right;
  for (const auto& batch : strategy.distribute(mnist.test_dataset().batch(500))) {
    const auto local = strategy.run(
        [&](const Example& part) {
          const at::NoGradGuard no_grad;
          return net->forward(part.x()).argmax(1).eq(part.y());
        },
        batch);
    right.push_back(strategy.gather(local, 0));
  }
  const double accuracy = at::cat(right).to(at::kDouble).mean().item<double>();
  std::printf("test accuracy %.4f\n", accuracy);
}

int main(int argc, char** argv) {
  return strata::run_main(
      [&] { train(examples::parse(argc, argv, {.epochs = 2, .batch = 128, .devices = {}})); });
}
