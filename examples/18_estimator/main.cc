// tf.estimator in C++: a model_fn, trained and evaluated in a folder that it goes on from.
//
//   build/release/examples/18_estimator [FOLDER] [--epochs 1] [--devices 2] [--batch 64]
//
// prints
//
//   step 938: accuracy 0.95
//   first digits of the test set: 7 2 1 0 4 1 4 9
//
// A batch is one replica's (TensorFlow's rule): with 2 devices a step has 2 of them. The same program
// is every task of a cluster with parameter servers, where the evaluator prints this:
//
//   build/release/strata launch -n 3 --chief --ps 1 --evaluator build/release/examples/18_estimator
//
// With the same FOLDER it continues where it was.
#include <cstdio>
#include <optional>
#include <string>

#include "strata/strata.h"
#include "support/arguments.h"

namespace estimator = strata::estimator;
namespace layers = strata::layers;
namespace losses = strata::losses;
namespace metrics = strata::metrics;
namespace optimizers = strata::optimizers;

struct Params {
  int64_t units = 256;
  double learning_rate = 1e-3;
};

estimator::EstimatorSpec model_fn(const estimator::Features& features,
                                  const estimator::Labels& labels, estimator::Mode mode,
                                  estimator::ModelContext& context) {
  const auto& params = context.params<Params>();
  at::Tensor x = features.at("x").values.flatten(1);
  x = context.layer<layers::Dense>("hidden", params.units, "relu")(x);
  const at::Tensor logits = context.layer<layers::Dense>("logits", 10)(x);

  estimator::EstimatorSpec spec{.predictions = {{"digit", {logits.argmax(1)}}}};
  if (mode == estimator::Mode::kPredict) return spec;
  spec.loss = losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true}).mean();
  spec.eval_metrics = {
      context.metric<metrics::SparseCategoricalAccuracy>("accuracy", labels, logits)};
  if (mode == estimator::Mode::kEval) return spec;
  spec.train_op = context.minimize(
      context.optimizer([&] { return optimizers::Adam({.learning_rate = params.learning_rate}); }),
      spec.loss);
  return spec;
}

void train(const examples::Arguments& arguments, const std::string& folder) {
  const auto mnist = strata::data::load_mnist();
  estimator::RunConfigOptions options{.tf_random_seed = 1, .save_checkpoints_steps = 500};
  std::optional<strata::MirroredStrategy> strategy;  // a cluster has one of its own
  if (estimator::RunConfig().is_alone()) {
    strategy.emplace(strata::MirroredOptions{.devices = arguments.devices, .seed = 1});
    options.train_distribute = &*strategy;
  }
  estimator::Estimator digits(
      model_fn, {.model_dir = folder, .config = estimator::RunConfig(options), .params = Params{}});

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

  std::printf("first digits of the test set:");
  int shown = 0;
  for (const estimator::Features& row : digits.predict(test_input)) {
    std::printf(" %lld", static_cast<long long>(row.at("digit").values.item<int64_t>()));
    if (++shown == 8) break;
  }
  std::printf("\n");
}

int main(int argc, char** argv) {
  return strata::run_main([&] {
    const std::string folder = examples::parse_folder(argc, argv, "estimator_run");
    train(examples::parse(argc, argv, {.epochs = 1, .batch = 64, .devices = {}}), folder);
  });
}
