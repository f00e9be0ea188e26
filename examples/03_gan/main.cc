// A generative adversarial network: two models, two optimizers, and three steps of the one for each
// of the other. It learns eight points on a circle of radius 2.
//
//   build/release/examples/03_gan [--epochs 20] [--devices 2] [--batch 256]
//
// prints
//
//   epoch 20/20: 0.75 of the points within 0.3 of one of the eight, 8 of 8 reached
//
// Only minimize() reduces, and only its own variables' gradients, so a step of one network leaves
// the other alone, and how often each one steps is the loop's business.
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <cstdio>

#include "strata/strata.h"
#include "support/arguments.h"
#include "support/progress_bar.h"

using strata::data::Example;
using torch::nn::LeakyReLU;
using torch::nn::Linear;
using torch::nn::Sequential;

constexpr int64_t kNoise = 8;

/// `[8, 2]`
at::Tensor centers() {
  const at::Tensor angle = at::arange(8, at::kFloat) * (M_PI / 4);
  return at::stack({at::cos(angle), at::sin(angle)}, 1) * 2;
}

Sequential make_network(int64_t inputs, int64_t outputs) {
  return Sequential(Linear(inputs, 128), LeakyReLU(), Linear(128, 128), LeakyReLU(),
                    Linear(128, outputs));
}

void train(const examples::Arguments& arguments) {
  strata::MirroredStrategy strategy({.devices = arguments.devices, .seed = 1});
  torch::manual_seed(1);
  const at::Tensor points =
      centers().index_select(0, at::randint(8, {16384}, at::kLong)) + at::randn({16384, 2}) * 0.1;
  const auto batches = strategy.distribute(
      strata::data::Dataset::from_tensor_slices({points}).shuffle(16384).batch(arguments.batch));
  const auto generator = strategy.replicate([] { return make_network(kNoise, 2); });
  const auto critic = strategy.replicate([] { return make_network(2, 1); });
  strata::optimizers::Adam teach(critic.variables(), {.learning_rate = 2e-3, .beta_1 = 0.5});
  strata::optimizers::Adam learn(generator.variables(), {.learning_rate = 2e-3, .beta_1 = 0.5});

  const auto average = [&](const at::Tensor& per_example) {
    return strata::compute_average_loss(per_example, arguments.batch);
  };
  const auto fake = [&](int64_t rows) { return generator->forward(at::randn({rows, kNoise})); };
  int64_t step = 0;
  for (int epoch = 1; epoch <= arguments.epochs; ++epoch) {
    examples::ProgressBar bar(strata::str_cat("epoch ", epoch, "/", arguments.epochs),
                              batches.cardinality());
    for (const auto& batch : batches) {
      const bool generator_too = ++step % 3 == 0;
      strategy.run(
          [&](const Example& part) {
            const int64_t rows = part.x().size(0);
            const at::Tensor real = critic->forward(part.x());
            const at::Tensor made = critic->forward(fake(rows).detach());
            teach.minimize(average(at::softplus(-real) + at::softplus(made)));
            if (generator_too) learn.minimize(average(at::softplus(-critic->forward(fake(rows)))));
          },
          batch);
      bar.advance();
    }
    const at::NoGradGuard no_grad;
    const auto [distance, nearest] = at::cdist(fake(2000), centers()).min(1);
    const at::Tensor close = distance < 0.3;
    const auto reached = std::get<0>(at::_unique(nearest.masked_select(close))).numel();
    char line[100];
    std::snprintf(line, sizeof line,
                  "%.2f of the points within 0.3 of one of the eight, %d of 8 reached",
                  close.to(at::kFloat).mean().item<double>(), static_cast<int>(reached));
    bar.finish(line);
  }
}

int main(int argc, char** argv) {
  return strata::run_main(
      [&] { train(examples::parse(argc, argv, {.epochs = 20, .batch = 256, .devices = {}})); });
}
