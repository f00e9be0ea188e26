// Trains MNIST with MirroredStrategy on every core of this machine, by a loop of its own.
//
//   build/release/examples/01_mnist_mirrored [--epochs 2] [--devices 2] [--batch 64]   # make demo
//
// prints, on two cores,
//
//   2 replicas: cpu:0 cpu:1
//   epoch 1/2: loss 0.2671, accuracy 0.9208, 23000 images/s
//   epoch 2/2: loss 0.1023, accuracy 0.9687, 23000 images/s
//   test accuracy 0.9733
// Ctrl-C ends it between two steps, with the terminal as it was and exit status 130.
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <exception>

#include "strata/strata.h"
#include "support/arguments.h"
#include "support/progress_bar.h"

using strata::data::Example;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("hidden1", hidden1);
    register_module("hidden2", hidden2);
    register_module("logits", logits);
  }
  at::Tensor forward(const at::Tensor& images) {
    return logits(at::relu(hidden2(at::relu(hidden1(images.flatten(1))))));
  }
  torch::nn::Linear hidden1{784, 256}, hidden2{256, 256}, logits{256, 10};
};
TORCH_MODULE(Net);

void train(const examples::Arguments& arguments) {
  strata::MirroredStrategy strategy({.devices = arguments.devices});
  std::printf("%d replicas:", strategy.num_replicas_in_sync());
  for (int r = 0; r < strategy.num_replicas_in_sync(); ++r) {
    const strata::LogicalDevice& device = strategy.group().device(r);
    std::printf(" %s:%d", device.type == "CPU" ? "cpu" : "gpu", device.index);
  }
  std::puts("");

  torch::manual_seed(1);
  const auto mnist = strata::data::load_mnist();
  const auto train_batches =
      strategy.distribute(mnist.train_dataset().shuffle(60000).batch(arguments.batch));
  const auto test_batches = strategy.distribute(mnist.test_dataset().batch(1000));
  const auto net = strategy.replicate([] { return Net(); });
  strata::optimizers::Adam adam(net.variables());
  auto [loss, accuracy] = strategy.scope(
      [] { return std::pair(strata::metrics::Mean("loss"), strata::metrics::Mean("accuracy")); });

  for (int epoch = 1; epoch <= arguments.epochs; ++epoch) {
    loss.reset();
    accuracy.reset();
    examples::ProgressBar bar(strata::str_cat("epoch ", epoch, "/", arguments.epochs),
                              train_batches.cardinality());
    for (const auto& batch : train_batches) {
      strategy.run(
          [&](const Example& part) {
            const at::Tensor logits = net->forward(part.x());
            const at::Tensor losses = strata::losses::sparse_categorical_crossentropy(
                part.y(), logits, {.from_logits = true});
            // The sum over my rows: the optimizer divides by the rows of all replicas.
            adam.minimize(losses.sum(), {.weight = static_cast<double>(losses.numel())});
            loss.update(losses);
            accuracy.update(strata::metrics::sparse_categorical_accuracy(part.y(), logits));
          },
          batch);
      bar.advance();
    }
    char line[100];
    std::snprintf(line, sizeof line, "loss %.4f, accuracy %.4f, %.0f images/s", loss.result(),
                  accuracy.result(), 60000 / bar.seconds());
    bar.finish(line);
  }
  accuracy.reset();
  for (const auto& batch : test_batches) {
    strategy.run(
        [&](const Example& part) {
          const torch::NoGradGuard no_grad;
          const at::Tensor logits = net->forward(part.x());
          accuracy.update(strata::metrics::sparse_categorical_accuracy(part.y(), logits));
        },
        batch);
  }
  std::printf("test accuracy %.4f\n", accuracy.result());
}

int main(int argc, char** argv) try {
  const strata::InterruptGuard interrupt;
  train(examples::parse(argc, argv, {.epochs = 2, .batch = 64, .devices = {}}));
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  const auto* ours = dynamic_cast<const strata::Error*>(&error);
  return ours && ours->code() == strata::ErrorCode::kCancelled ? 130 : 1;
}
