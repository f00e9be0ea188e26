// tf.estimator in C++: a model_fn, trained and evaluated in a folder that it goes on from.
//
//   build/release/examples/18_estimator [--epochs 1] [--devices 2] [--batch 64]
//
// prints
//
//   step 938: accuracy 0.95
//   first digits of the test set: 7 2 1 0 4 1 4 9
//
// A batch is one replica's (TensorFlow's rule): with 2 devices a step has 2 of them.
#include <cstdio>
#include <filesystem>

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

void train(const examples::Arguments& arguments) {
  const auto mnist = strata::data::load_mnist();
  strata::MirroredStrategy strategy({.devices = arguments.devices, .seed = 1});
  const std::string folder =
      (std::filesystem::temp_directory_path() / "strata-18-estimator").string();
  std::filesystem::remove_all(folder);  // a program that is to go on leaves it
  estimator::Estimator digits(
      model_fn,
      {.model_dir = folder,
       .config = estimator::RunConfig(
           {.tf_random_seed = 1, .save_checkpoints_steps = 500, .train_distribute = &strategy}),
       .params = Params{}});

  const auto train_input = [&](const strata::InputContext&) -> estimator::Input {
    return mnist.train_dataset().shuffle(60000).repeat(arguments.epochs).batch(arguments.batch);
  };
  const auto test_input = [&](const strata::InputContext&) -> estimator::Input {
    return mnist.test_dataset().batch(1000);
  };
  const auto result = estimator::train_and_evaluate(digits, {.input_fn = train_input},
                                                    {.input_fn = test_input, .steps = {}});
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
  return strata::run_main(
      [&] { train(examples::parse(argc, argv, {.epochs = 1, .batch = 64, .devices = {}})); });
}
