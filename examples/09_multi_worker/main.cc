// Trains MNIST by `fit` on several processes, here or on several machines: example 01 with another
// strategy. Every process runs this program.
//
//   build/release/strata launch -n 2 build/release/examples/09_multi_worker [--epochs 2] [--batch
//   128]
//
// prints, for two workers with a core each,
//
//   worker:0 | 2 workers, 2 replicas, ...
//   worker:0 | Epoch 1/2
//   worker:0 | 469/469 - 1s - ...
//   ...
//   worker:0 | test accuracy 0.9724
//
// Elsewhere than under the launcher TF_CONFIG, SLURM, MPI or Kubernetes say who is there
// (docs/clusters.md); where nothing does, it trains alone. As many replicas make the same weights,
// however they are spread over processes.
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
  // The batches of all workers together: each reads its own rows of them.
  const auto mnist = strata::data::load_mnist();
  const auto train = mnist.train_dataset().shuffle(60000).batch(arguments.batch);
  const auto test = mnist.test_dataset().batch(1000);

  at::manual_seed(1);
  strata::MultiWorkerMirroredStrategy strategy({.devices = arguments.devices});
  if (strategy.is_chief()) std::printf("%s", strategy.describe().c_str());
  auto model = strategy.scope([&] {
    keras::Sequential model({layers::Flatten(), layers::Dense(256, "relu"),
                             layers::Dense(256, "relu"), layers::Dense(10)});
    model.compile({.optimizer = optimizers::Adam(),
                   .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                   .metrics = {metrics::SparseCategoricalAccuracy()}});
    return model;
  });
  model.fit(train, {.epochs = arguments.epochs, .validation_data = test});
  const keras::Logs result = model.evaluate(test, {.verbose = 0});  // by all, together
  if (strategy.is_chief()) {
    std::printf("test accuracy %.4f\n", result.at("sparse_categorical_accuracy"));
  }
}

int main(int argc, char** argv) {
  return strata::run_main(
      [&] { train(examples::parse(argc, argv, {.epochs = 2, .batch = 128, .devices = {}})); });
}
