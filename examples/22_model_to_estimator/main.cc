// A compiled Keras model as an Estimator: MNIST by train_and_evaluate.
//
//   build/release/examples/22_model_to_estimator [FOLDER] [--epochs 1] [--devices 2] [--batch 64]
//
// prints
//
//   step 469: accuracy 0.95
//
// A batch is one replica's (TensorFlow's rule). The same program is every task of a cluster with parameter
// servers, where the evaluator prints this:
//
//   build/release/strata launch -n 3 --chief --ps 1 --evaluator build/release/examples/22_model_to_estimator
#include <cstdio>
#include <optional>
#include <string>

#include "strata/strata.h"
#include "support/arguments.h"

namespace estimator = strata::estimator;
namespace keras = strata::keras;
namespace layers = strata::layers;

keras::Model compiled_model() {
  keras::Model model =
      keras::Sequential(keras::Input({28, 28, 1}),
                        {layers::Flatten(), layers::Dense(128, "relu"), layers::Dense(10)});
  model.compile({.optimizer = strata::optimizers::Adam({.learning_rate = 1e-3}),
                 .loss = strata::losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {strata::metrics::SparseCategoricalAccuracy({.name = "accuracy"})}});
  return model;
}

void train(const examples::Arguments& arguments, const std::string& folder) {
  const auto mnist = strata::data::load_mnist();
  estimator::RunConfigOptions options{.tf_random_seed = 1, .save_checkpoints_steps = 500};
  std::optional<strata::MirroredStrategy> strategy;  // a cluster has one of its own
  if (estimator::RunConfig().is_alone()) {
    strategy.emplace(strata::MirroredOptions{.devices = arguments.devices, .seed = 1});
    options.train_distribute = &*strategy;
  }
  estimator::Estimator digits = estimator::model_to_estimator(
      compiled_model(), {.model_dir = folder, .config = estimator::RunConfig(options)});

  const auto train_input = [&](const strata::InputContext&) -> estimator::Input {
    return mnist.train_dataset().shuffle(60000).repeat().batch(arguments.batch);
  };
  const auto test_input = [&](const strata::InputContext&) -> estimator::Input {
    return mnist.test_dataset().batch(1000);
  };
  const int replicas = strategy ? strategy->num_replicas_in_sync() : 1;
  const int64_t max_steps = arguments.epochs * 60000 / (arguments.batch * replicas);
  const auto result = estimator::train_and_evaluate(
      digits, {.input_fn = train_input, .max_steps = max_steps},
      {.input_fn = test_input, .steps = {}, .start_delay_secs = 0, .throttle_secs = 1});
  if (!result.evaluation) return;  // another task of the cluster evaluates
  std::printf("step %lld: accuracy %.2f\n", static_cast<long long>(result.evaluation->global_step),
              result.evaluation->at("accuracy"));
}

int main(int argc, char** argv) {
  return strata::run_main([&] {
    const std::string folder = examples::parse_folder(argc, argv, "model_to_estimator_run");
    train(examples::parse(argc, argv, {.epochs = 1, .batch = 64, .devices = {}}), folder);
  });
}
