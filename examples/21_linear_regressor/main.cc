// The Estimator of TensorFlow's guide to distribution: a line through points, on all devices.
//
//   build/release/examples/21_linear_regressor [FOLDER] [--devices 2] [--batch 10]
//
// prints
//
//   step 500: average_loss 0.0000
//   2 x 1 - 1 = 1.00
//
// A batch is one replica's (TensorFlow's rule). The same program is every task of a cluster with parameter
// servers, where the evaluator prints this:
//
//   build/release/strata launch -n 3 --chief --ps 1 --evaluator build/release/examples/21_linear_regressor
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>

#include <cstdio>
#include <optional>
#include <string>

#include "strata/strata.h"
#include "support/arguments.h"

namespace data = strata::data;
namespace estimator = strata::estimator;
namespace fc = strata::feature_column;

/// Points of 2 x - 1.
estimator::Input points(int64_t batch) {
  const at::Tensor x = at::linspace(-1, 1, 100).unsqueeze(1);
  return {data::Dataset::from_tensor_slices({x, 2 * x - 1}).shuffle(100).repeat().batch(batch),
          {{"feats"}}};
}

void train(const examples::Arguments& arguments, const std::string& folder) {
  estimator::RunConfigOptions options{.tf_random_seed = 1, .save_checkpoints_steps = 250};
  std::optional<strata::MirroredStrategy> strategy;  // a cluster has one of its own
  if (estimator::RunConfig().is_alone()) {
    strategy.emplace(strata::MirroredOptions{.devices = arguments.devices, .seed = 1});
    options.train_distribute = &*strategy;
    options.eval_distribute = &*strategy;
  }
  estimator::LinearRegressor regressor({.feature_columns = {fc::numeric_column("feats")},
                                        .optimizer = "SGD",
                                        .model_dir = folder,
                                        .config = estimator::RunConfig(options)});
  const estimator::InputFn input = [&](const strata::InputContext&) {
    return points(arguments.batch);
  };
  const auto result = estimator::train_and_evaluate(
      regressor, {.input_fn = input, .max_steps = 500},
      {.input_fn = input, .steps = 10, .start_delay_secs = 0, .throttle_secs = 1});
  if (!result.evaluation) return;  // another task of the cluster evaluates
  std::printf("step %lld: average_loss %.4f\n",
              static_cast<long long>(result.evaluation->global_step),
              result.evaluation->at("average_loss"));

  const estimator::InputFn one = [](const strata::InputContext&) -> estimator::Input {
    return {data::Dataset::from_tensor_slices({at::ones({1, 1})}).batch(1), {{"feats"}}};
  };
  for (const estimator::Features& row : regressor.predict(one)) {
    std::printf("2 x 1 - 1 = %.2f\n", row.at("predictions").values.item<double>());
  }
}

int main(int argc, char** argv) {
  return strata::run_main([&] {
    const std::string folder = examples::parse_folder(argc, argv, "linear_regressor_run");
    train(examples::parse(argc, argv, {.epochs = 1, .batch = 10, .devices = {}}), folder);
  });
}
