// Trains MNIST with MirroredStrategy on every core of this machine.
//
//   build/release/examples/01_mnist_mirrored [--epochs 2] [--devices 2] [--batch 64]   # make demo
//
// prints, on two cores,
//
//   Epoch 1/2
//   938/938 - 1s - 1ms/step - 60000 examples/s - accuracy: 0.9187 - loss: 0.2790 - ...
//   Epoch 2/2
//   ...
//   test accuracy 0.9733
// Ctrl-C ends it between two steps, with the terminal as it was and exit status 130.
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
  const auto mnist = strata::data::load_mnist();
  const auto train = mnist.train_dataset().shuffle(60000).batch(arguments.batch);
  const auto test = mnist.test_dataset().batch(1000);

  at::manual_seed(1);
  strata::MirroredStrategy strategy({.devices = arguments.devices});
  std::printf("%d replicas\n", strategy.num_replicas_in_sync());
  auto model = strategy.scope([&] {
    keras::Sequential model({layers::Flatten(), layers::Dense(256, "relu"),
                             layers::Dense(256, "relu"), layers::Dense(10)});
    model.compile({.optimizer = optimizers::Adam(),
                   .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                   .metrics = {metrics::SparseCategoricalAccuracy()}});
    return model;
  });
  model.fit(train, {.epochs = arguments.epochs, .validation_data = test});
  const keras::Logs result = model.evaluate(test, {.verbose = 0});
  std::printf("test accuracy %.4f\n", result.at("sparse_categorical_accuracy"));
}

int main(int argc, char** argv) {
  return strata::run_main(
      [&] { train(examples::parse(argc, argv, {.epochs = 2, .batch = 64, .devices = {}})); });
}
