// MNIST by fit on the cores of a TPU; without one, on virtual devices of XLA's compiler for CPUs:
//
//   export STRATA_PJRT_PLUGIN="$(scripts/install_pjrt.sh)"
//   build/release/examples/17_tpu --cpu-devices 8
//
// prints:
//   8 cores of platform cpu
//   test accuracy 0.97
//
// The step is compiled once; weights and optimizer stay on the cores. 50 steps are one run of a loop there.
#include <cstdio>
#include <cstring>

#include "strata/strata.h"
#include "support/number.h"

namespace layers = strata::layers;
namespace losses = strata::losses;
namespace metrics = strata::metrics;
namespace optimizers = strata::optimizers;

void train(int64_t cpu_devices) {
  const strata::TPUClusterResolver resolver({.cpu_devices = cpu_devices});
  strata::TPUStrategy strategy(resolver, {.seed = 1});
  std::printf("%d cores of platform %s\n", strategy.num_replicas_in_sync(),
              resolver.platform().c_str());
  const auto mnist = strata::data::load_mnist();
  auto model = strategy.scope([] {
    strata::keras::Sequential model(
        {layers::Flatten(), layers::Dense(256, "relu"), layers::Dense(10)});
    model.compile({.optimizer = optimizers::Adam({.learning_rate = 2e-3}),
                   .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                   .metrics = {metrics::SparseCategoricalAccuracy()},
                   .steps_per_execution = 50});
    return model;
  });
  model.fit(mnist.train_dataset().shuffle(60000).batch(256, {.drop_remainder = true}),
            {.epochs = 3, .verbose = 0});
  const auto logs = model.evaluate(mnist.test_dataset().batch(1000), {.verbose = 0});
  std::printf("test accuracy %.2f\n", logs.at("sparse_categorical_accuracy"));
}

int main(int argc, char** argv) {
  const bool virtual_devices = argc == 3 && std::strcmp(argv[1], "--cpu-devices") == 0;
  if (argc > 1 && !virtual_devices) {
    std::fprintf(stderr, "usage: 17_tpu [--cpu-devices N]\n");
    return 2;
  }
  return strata::run_main([&] { train(virtual_devices ? examples::number(argv[2], argv[1]) : 0); });
}
