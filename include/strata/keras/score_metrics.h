#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/core/one_of.h"
#include "strata/keras/metric.h"

/// Scores with state for each class or output: `y_true` and `y_pred` are `[batch, n]`.
/// Source: keras.metrics 3.15, names and defaults.
namespace strata::metrics {

struct ScoreAverageWords {
  enum Word { kMicro, kMacro, kWeighted };
  static constexpr const char* kOption = "average";
  static constexpr const char* kWords[] = {"micro", "macro", "weighted"};
};
using ScoreAverage = OneOf<ScoreAverageWords>;

struct F1ScoreOptions {
  /// Unset: a value for each class (`results`); "micro": over all; "macro": their mean; "weighted":
  /// their mean by how often a class is true.
  std::optional<ScoreAverage> average = {};
  std::optional<double> threshold = {};  ///< in (0, 1]; unset: the largest of a row is predicted
  std::string name = {};
  std::string dtype = "float32";
};

struct FBetaScoreOptions {
  std::optional<ScoreAverage> average = {};  ///< see F1ScoreOptions
  double beta = 1;                           ///< above 0: weight of recall against precision
  std::optional<double> threshold = {};
  std::string name = {};
  std::string dtype = "float32";
};

struct R2AggregationWords {
  enum Word { kUniformAverage, kVarianceWeightedAverage };
  static constexpr const char* kOption = "class_aggregation";
  static constexpr const char* kWords[] = {"uniform_average", "variance_weighted_average"};
};
using R2Aggregation = OneOf<R2AggregationWords>;

struct R2ScoreOptions {
  /// Unset: a value for each output; "uniform_average", "variance_weighted_average".
  std::optional<R2Aggregation> class_aggregation = "uniform_average";
  int64_t num_regressors = 0;  ///< for the adjusted score
  std::string name = {};
  std::string dtype = "float32";
};

STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view, const F1ScoreOptions&);
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view, const FBetaScoreOptions&);
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view, const R2ScoreOptions&);

using F1Score = MetricClass<"F1Score", F1ScoreOptions>;
using FBetaScore = MetricClass<"FBetaScore", FBetaScoreOptions>;
using R2Score = MetricClass<"R2Score", R2ScoreOptions>;

}  // namespace strata::metrics
