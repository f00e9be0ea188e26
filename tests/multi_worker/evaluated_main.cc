// A job with an evaluator, for the test beside it: chief and workers train on MNIST and save after
// each epoch, the evaluator evaluates what they save.
//
//   strata_evaluated_job FOLDER EPOCHS
//
// The chief prints "epoch N accuracy A" of its own validation, the evaluator "evaluated N accuracy
// A".
#include <ATen/Context.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/roles.h"
#include "strata/core/str_cat.h"
#include "strata/data/mnist.h"
#include "strata/keras/callbacks.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/sequential.h"
#include "strata/keras/sidecar_evaluator.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"

namespace {

using namespace strata;  // NOLINT

void run(const std::string& folder, int64_t epochs) {
  const auto cluster = cluster::resolve_cluster();
  MultiWorkerMirroredOptions options{.seed = 3};
  options.devices = {"cpu:0", "cpu:1"};
  options.server.start_timeout = std::chrono::seconds(60);
  MultiWorkerMirroredStrategy strategy(options);
  const keras::Model model = strategy.scope([] {
    return keras::Sequential(keras::Input({28, 28}),
                             {layers::Flatten(), layers::Dense(16, "relu"), layers::Dense(10)});
  });
  model.compile({.optimizer = optimizers::Adam({.learning_rate = 0.01}),
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {"accuracy"}});
  const data::Mnist mnist = data::load_mnist();
  const data::Dataset test = mnist.test_dataset().take(1000).batch(250);
  if (cluster && cluster->task.job == cluster::kEvaluator) {
    keras::SidecarEvaluator sidecar(model, test, folder,
                                    {.max_evaluations = epochs,
                                     .verbose = 0,
                                     .timeout = std::chrono::seconds(100),
                                     .interval = std::chrono::milliseconds(10)});
    sidecar.start();
    for (const keras::Evaluation& each : sidecar.evaluations()) {
      std::printf("evaluated %lld accuracy %.17g\n", static_cast<long long>(each.number),
                  each.logs.at("accuracy"));
    }
    return;
  }
  const auto history =
      model.fit(mnist.train_dataset().take(2000).shuffle(500, {.seed = 7}).batch(100),
                {.epochs = epochs,
                 .validation_data = test,
                 .callbacks = {callbacks::ModelCheckpoint(folder + "/ckpt-{epoch}.safetensors",
                                                          {.save_weights_only = true})},
                 .verbose = 0});
  if (!strategy.is_chief()) return;
  const auto& accuracies = history.history.at("val_accuracy");
  for (size_t e = 0; e < accuracies.size(); ++e) {
    std::printf("epoch %zu accuracy %.17g\n", e + 1, accuracies[e]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: strata_evaluated_job FOLDER EPOCHS\n");
    return 2;
  }
  try {
    set_logical_devices("cpu", 2);
    at::manual_seed(1);
    run(argv[1], std::atoi(argv[2]));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
