#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "strata/core/json.h"
#include "tools/study/study_options.h"

namespace strata::tools {

/// What a network knows after training with so many replicas.
struct AccuracyResult {
  Configuration configuration;
  AccuracyOptions training;
  double learning_rate = 0;  ///< after warm-up
  double accuracy = 0;       ///< of the test images, from 0 to 1
  double loss = 0;           ///< of the test images
  double seconds = 0;        ///< of the training

  int64_t global_batch() const { return configuration.batch * configuration.replicas; }
  Json to_json() const;
  /// @throws Error  kDataLoss: a member is missing, or of another type.
  static AccuracyResult from_json(const Json& json);
};

/// The learning rate for `replicas` times the batch: in proportion (Goyal et al. 2017), to its
/// square root (Krizhevsky 2014), or the same.
double scaled_learning_rate(double rate, RateScaling scaling, int replicas);

/// A configuration that trains with MNIST's images.
Configuration accuracy_configuration(Configuration configuration);

/// Trains in this process, with the other tasks of its cluster if it has one, and tests. All tasks
/// make this call; the chief's result counts. The rate rises over the warm-up epochs from the
/// configuration's to the scaled one, and falls then along half a cosine.
/// @throws Error  as make_strategy, data::load_mnist and Model::fit.
AccuracyResult train_for_accuracy(const Configuration& configuration,
                                  const AccuracyOptions& training);

/// The options that make `strata study` train so.
std::vector<std::string> words_of(const AccuracyOptions& training);

/// A table for people, and a page with a chart.
std::string accuracy_table(const std::vector<AccuracyResult>& results);
std::string accuracy_html(const std::vector<AccuracyResult>& results);

}  // namespace strata::tools
