#include "tools/study/accuracy.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>

#include "strata/core/error.h"
#include "strata/data/mnist.h"
#include "strata/keras/dtype_policy.h"
#include "strata/keras/losses.h"
#include "strata/keras/metrics.h"
#include "strata/optim/schedule.h"
#include "tools/study/measurement.h"
#include "tools/study/study_networks.h"
#include "tools/study/study_optimizer.h"
#include "tools/study/study_strategy.h"

namespace strata::tools {
namespace {

constexpr double kMomentum = 0.9;
constexpr int64_t kSide = 28;
constexpr int64_t kDigits = 10;

RateScaling scaling_of(const std::string& word) {
  for (const RateScaling each : {RateScaling::kLinear, RateScaling::kSqrt, RateScaling::kNone}) {
    if (word == word_of(each)) return each;
  }
  throw Error(ErrorCode::kDataLoss,
              str_cat("[strata study] got scaling ", word, "; expected linear, sqrt or none"));
}

/// Rows `[28, 28, 1]` in 0..1, and labels.
data::Dataset images_of(const data::Example& rows, int64_t batch, bool training) {
  data::Dataset images = data::Dataset::from_tensor_slices({rows.x().unsqueeze(-1), rows.y()});
  if (training) images = images.shuffle(rows.num_rows(), {.seed = 1});
  return images.batch(batch, {.drop_remainder = training}).map(data::scale_pixels);
}

/// Steps that an epoch adds to the optimizer's count.
double steps_of_epoch(const Configuration& c, int64_t examples) {
  const bool apart = c.strategy == StudyStrategy::kParameterServer && !c.synchronous;
  const int64_t batch = apart ? c.batch : c.batch * c.replicas;
  return std::max(1.0, std::floor(static_cast<double>(examples) / static_cast<double>(batch)));
}

schedules::Schedule rate_of(const Configuration& c, const AccuracyOptions& training,
                            int64_t examples) {
  const double scaled = scaled_learning_rate(c.learning_rate, training.scaling, c.replicas);
  const double epoch = steps_of_epoch(c, examples);
  const double warmup = epoch * training.warmup_epochs;
  const double rest = std::max(1.0, epoch * training.epochs - warmup);
  if (warmup == 0) {
    return schedules::CosineDecay{.initial_learning_rate = scaled, .decay_steps = rest};
  }
  return schedules::CosineDecay{.initial_learning_rate = c.learning_rate,
                                .decay_steps = rest,
                                .warmup_target = scaled,
                                .warmup_steps = warmup};
}

}  // namespace

double scaled_learning_rate(double rate, RateScaling scaling, int replicas) {
  switch (scaling) {
    case RateScaling::kLinear:
      return rate * replicas;
    case RateScaling::kSqrt:
      return rate * std::sqrt(static_cast<double>(replicas));
    case RateScaling::kNone:
      break;
  }
  return rate;
}

Configuration accuracy_configuration(Configuration configuration) {
  configuration.image_size = kSide;
  configuration.classes = kDigits;
  return configuration;
}

Json AccuracyResult::to_json() const {
  Json json = configuration.to_json();
  json.set("global_batch", global_batch()).set("epochs", training.epochs);
  json.set("examples", training.examples).set("scale_learning_rate", word_of(training.scaling));
  json.set("warmup_epochs", training.warmup_epochs).set("scaled_learning_rate", learning_rate);
  json.set("accuracy", accuracy).set("test_loss", finite_or_null(loss)).set("seconds", seconds);
  return json;
}

AccuracyResult AccuracyResult::from_json(const Json& json) {
  AccuracyResult result{.configuration = Configuration::from_json(json), .training = {}};
  result.training.epochs = static_cast<int>(json.at("epochs").as_int());
  result.training.examples = json.at("examples").as_int();
  result.training.scaling = scaling_of(json.at("scale_learning_rate").as_string());
  result.training.warmup_epochs = json.at("warmup_epochs").as_double();
  result.learning_rate = json.at("scaled_learning_rate").as_double();
  result.accuracy = json.at("accuracy").as_double();
  result.loss = number_or_nan(json.at("test_loss"));
  result.seconds = json.at("seconds").as_double();
  return result;
}

AccuracyResult train_for_accuracy(const Configuration& configuration,
                                  const AccuracyOptions& training) {
  const std::unique_ptr<Strategy> strategy = make_strategy(configuration);
  data::Mnist mnist = data::load_mnist(configuration.is_synthetic() ? "" : configuration.data);
  if (training.examples > 0 && training.examples < mnist.train.num_rows()) {
    mnist.train = {mnist.train.x().slice(0, 0, training.examples),
                   mnist.train.y().slice(0, 0, training.examples)};
  }
  const int64_t examples = mnist.train.num_rows();
  const int64_t batch = configuration.batch * strategy->num_replicas_in_sync();
  STRATA_CHECK(examples >= configuration.batch * configuration.replicas, kInvalidArgument,
               "[strata study] got ", examples, " images for a batch of ",
               configuration.batch * configuration.replicas,
               "; expected as many at least: a smaller --batch, or more --examples");
  const keras::Model model = strategy->scope([&] {
    if (configuration.dtype != "float32") keras::set_dtype_policy("mixed_" + configuration.dtype);
    keras::Model net = make_study_network(configuration.network, kSide, kDigits, 1);
    net.compile({.optimizer = make_study_optimizer(
                     configuration, rate_of(configuration, training, examples), kMomentum),
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {"accuracy"}});
    return net;
  });
  const auto began = std::chrono::steady_clock::now();
  model.fit(images_of(mnist.train, batch, true), {.epochs = training.epochs});
  AccuracyResult result{.configuration = configuration, .training = training};
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  result.learning_rate =
      scaled_learning_rate(configuration.learning_rate, training.scaling, configuration.replicas);
  // Workers of parameter servers test by themselves: the chief's weights are the servers'.
  if (configuration.strategy == StudyStrategy::kParameterServer && !strategy->is_chief()) {
    return result;
  }
  const keras::Logs logs = model.evaluate(images_of(mnist.test, batch, false), {.verbose = 0});
  result.accuracy = logs.at("accuracy");
  result.loss = logs.at("loss");
  return result;
}

std::vector<std::string> words_of(const AccuracyOptions& training) {
  char warmup[32];
  std::snprintf(warmup, sizeof warmup, "%.12g", training.warmup_epochs);
  std::vector<std::string> words = {"--accuracy",
                                    "--epochs",
                                    std::to_string(training.epochs),
                                    "--scale-learning-rate",
                                    std::string(word_of(training.scaling)),
                                    "--warmup-epochs",
                                    warmup};
  if (training.examples > 0) {
    words.insert(words.end(), {"--examples", std::to_string(training.examples)});
  }
  return words;
}

}  // namespace strata::tools
