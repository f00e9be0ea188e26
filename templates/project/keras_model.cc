// A model of Keras's layers, trained on every core (or on all GPUs): keras_model [EPOCHS]
#include <ATen/Context.h>

#include <cstdio>
#include <cstdlib>

#include "spirals.h"

namespace layers = strata::layers;
namespace losses = strata::losses;
namespace metrics = strata::metrics;
namespace optimizers = strata::optimizers;

void train(int epochs) {
  const auto training = spirals(4096, 1).shuffle(4096, {.seed = 1}).batch(64);
  const auto test = spirals(1024, 2).batch(256);

  at::manual_seed(1);
  strata::MirroredStrategy strategy;
  auto model = strategy.scope([] {
    strata::keras::Sequential model(
        {layers::Dense(64, "relu"), layers::Dense(64, "relu"), layers::Dense(2)});
    model.compile({.optimizer = optimizers::Adam({.learning_rate = 0.01}),
                   .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                   .metrics = {metrics::SparseCategoricalAccuracy()}});
    return model;
  });
  model.fit(training, {.epochs = epochs, .validation_data = test});
  const auto result = model.evaluate(test, {.verbose = 0});
  std::printf("test accuracy %.3f\n", result.at("sparse_categorical_accuracy"));
}

int main(int argc, char** argv) {
  return strata::run_main([&] { train(argc > 1 ? std::atoi(argv[1]) : 20); });
}
