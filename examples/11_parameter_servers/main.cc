// Trains MNIST with parameter servers: they hold the weights, and each worker computes on its own,
// without waiting for the others. Every process runs this program.
//
//   build/release/strata launch -n 2 --ps 2 build/release/examples/11_parameter_servers
//       [--epochs 4] [--batch 64]
//
// prints, among other lines,
//
//   worker:0 | 2 workers, 2 parameter servers
//   worker:0 | test accuracy 0.9766
//
// Kill a worker: the others go on. Where nothing says that there is a cluster it trains alone.
#include <ATen/Context.h>

#include <cstdio>

#include "strata/strata.h"
#include "support/arguments.h"

namespace keras = strata::keras;
namespace layers = strata::layers;
namespace losses = strata::losses;
namespace metrics = strata::metrics;
namespace optimizers = strata::optimizers;

void train(const examples::Arguments& arguments) {
  // Each worker takes the batches in turn: with two workers, every second one.
  const auto mnist = strata::data::load_mnist();
  const auto train = mnist.train_dataset().shuffle(60000).batch(arguments.batch);
  const auto test = mnist.test_dataset().batch(1000);

  at::manual_seed(1);
  strata::ParameterServerStrategy strategy({.devices = arguments.devices});
  if (strategy.is_chief()) {
    std::printf("%d workers, %d parameter servers\n", strategy.num_workers(),
                strategy.num_servers());
  }
  auto model = strategy.scope([&] {
    keras::Sequential model({layers::Flatten(), layers::Dense(256, "relu"),
                             layers::Dense(256, "relu"), layers::Dense(10)});
    model.compile({.optimizer = optimizers::Adam(),
                   .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                   .metrics = {metrics::SparseCategoricalAccuracy()}});
    return model;
  });
  model.fit(train, {.epochs = arguments.epochs});
  if (!strategy.is_chief()) return;
  const keras::Logs result = model.evaluate(test, {.verbose = 0});
  std::printf("test accuracy %.4f\n", result.at("sparse_categorical_accuracy"));
}

int main(int argc, char** argv) {
  return strata::run_main(
      [&] { train(examples::parse(argc, argv, {.epochs = 4, .batch = 64, .devices = {}})); });
}
