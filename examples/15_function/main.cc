// A training step as a graph: strata::function records it once and replays it.
//
//   build/release/examples/15_function [--epochs 1] [--devices 2] [--batch 16]
//
// prints, trained on 12800 images in small batches:
//   epoch 1/1: loss 0.4902
//   test accuracy 0.9203, 2 graphs
//
// The step is written as without it, and has the same bits. Each replica has a graph of its own; a smaller
// last batch would be another signature, and have another one, so the dataset drops it.
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>

#include "strata/strata.h"
#include "support/arguments.h"
#include "support/progress_bar.h"

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("hidden", hidden);
    register_module("dropout", dropout);
    register_module("logits", logits);
  }
  at::Tensor forward(const at::Tensor& images) {
    return logits(dropout(at::relu(hidden(images.flatten(1)))));
  }
  torch::nn::Linear hidden{784, 128};
  torch::nn::Dropout dropout{0.1};
  torch::nn::Linear logits{128, 10};
};
TORCH_MODULE(Net);

void train(const examples::Arguments& arguments) {
  strata::MirroredStrategy strategy({.devices = arguments.devices, .seed = 1});
  torch::manual_seed(1);
  const auto mnist = strata::data::load_mnist();
  const auto batches = strategy.distribute(mnist.train_dataset().take(12800).shuffle(12800).batch(
      arguments.batch, {.drop_remainder = true}));
  const auto net = strategy.replicate([] { return Net(); });
  strata::optimizers::Adam adam(net.variables(), {.learning_rate = 1e-3});

  const auto step = strata::function(
      [&](const strata::data::Example& part) {
        const at::Tensor losses = strata::losses::sparse_categorical_crossentropy(
            part.y(), net->forward(part.x()), {.from_logits = true});
        const at::Tensor loss = strata::compute_average_loss(losses, arguments.batch);
        adam.minimize(loss);
        return loss;
      },
      {.name = "train_step"});

  for (int epoch = 1; epoch <= arguments.epochs; ++epoch) {
    examples::ProgressBar bar(strata::str_cat("epoch ", epoch, "/", arguments.epochs),
                              batches.cardinality());
    double total = 0;
    for (const auto& batch : batches) {
      const auto loss = strategy.run(step, batch);
      total += strategy.reduce(strata::ReduceOp::kSum, loss).item<double>();
      bar.advance();
    }
    char line[40];
    std::snprintf(line, sizeof line, "loss %.4f",
                  total / static_cast<double>(batches.cardinality()));
    bar.finish(line);
  }

  net->eval();  // the recorded step keeps the mode that it was recorded in
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> right;
  for (const auto& batch : mnist.test_dataset().batch(500)) {
    right.push_back(net->forward(batch.x()).argmax(1).eq(batch.y()));
  }
  const double accuracy = at::cat(right).to(at::kDouble).mean().item<double>();
  std::printf("test accuracy %.4f, %d graphs\n", accuracy, static_cast<int>(step.tracing_count()));
}

int main(int argc, char** argv) {
  return strata::run_main(
      [&] { train(examples::parse(argc, argv, {.epochs = 1, .batch = 16, .devices = {}})); });
}
