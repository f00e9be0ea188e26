#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/keras/metric.h"

/// Metrics that are the weighted mean of one value for each example. strata/optim/metrics.h and
/// losses.h document their formulas. Source: keras.metrics 3.15, names and defaults.
namespace strata::metrics {

struct BinaryAccuracyOptions {
  double threshold = 0.5;  ///< above it is 1
  std::string name = {};
  std::string dtype = "float32";
};

struct TopKOptions {
  int64_t k = 5;
  std::string name = {};
  std::string dtype = "float32";
};

struct SparseTopKOptions {
  int64_t k = 5;
  bool from_sorted_ids = false;  ///< y_pred are class numbers, the best first, not scores
  std::string name = {};
  std::string dtype = "float32";
};

struct BinaryCrossentropyOptions {
  bool from_logits = false;
  double label_smoothing = 0;
  std::string name = {};
  std::string dtype = "float32";
};

struct CategoricalCrossentropyOptions {
  bool from_logits = false;
  double label_smoothing = 0;
  int64_t axis = -1;
  std::string name = {};
  std::string dtype = "float32";
};

struct SparseCategoricalCrossentropyOptions {
  bool from_logits = false;
  /// Values with this label are 0. As in Keras, they count, unless there are sample weights or a
  /// mask.
  std::optional<int64_t> ignore_class = {};
  int64_t axis = -1;
  std::string name = {};
  std::string dtype = "float32";
};

struct CosineSimilarityOptions {
  int64_t axis = -1;
  std::string name = {};
  std::string dtype = "float32";
};

/// The options of PearsonCorrelation and ConcordanceCorrelation.
struct AxisOptions {
  int64_t axis = -1;
  std::string name = {};
  std::string dtype = "float32";
};

STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view, const BinaryAccuracyOptions&);
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view, const TopKOptions&);
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view, const SparseTopKOptions&);
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view,
                                                   const BinaryCrossentropyOptions&);
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view,
                                                   const CategoricalCrossentropyOptions&);
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view,
                                                   const SparseCategoricalCrossentropyOptions&);
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view,
                                                   const CosineSimilarityOptions&);
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view, const AxisOptions&);

using Accuracy = MetricClass<"Accuracy">;
using BinaryAccuracy = MetricClass<"BinaryAccuracy", BinaryAccuracyOptions>;
using CategoricalAccuracy = MetricClass<"CategoricalAccuracy">;
using SparseCategoricalAccuracy = MetricClass<"SparseCategoricalAccuracy">;
using TopKCategoricalAccuracy = MetricClass<"TopKCategoricalAccuracy", TopKOptions>;
using SparseTopKCategoricalAccuracy =
    MetricClass<"SparseTopKCategoricalAccuracy", SparseTopKOptions>;

using MeanSquaredError = MetricClass<"MeanSquaredError">;
using RootMeanSquaredError = MetricClass<"RootMeanSquaredError">;
using MeanAbsoluteError = MetricClass<"MeanAbsoluteError">;
using MeanAbsolutePercentageError = MetricClass<"MeanAbsolutePercentageError">;
using MeanSquaredLogarithmicError = MetricClass<"MeanSquaredLogarithmicError">;
using LogCoshError = MetricClass<"LogCoshError">;
using CosineSimilarity =
    MetricClass<"CosineSimilarity", CosineSimilarityOptions>;  ///< larger is more similar

using BinaryCrossentropy = MetricClass<"BinaryCrossentropy", BinaryCrossentropyOptions>;
using CategoricalCrossentropy =
    MetricClass<"CategoricalCrossentropy", CategoricalCrossentropyOptions>;
using SparseCategoricalCrossentropy =
    MetricClass<"SparseCategoricalCrossentropy", SparseCategoricalCrossentropyOptions>;
using KLDivergence = MetricClass<"KLDivergence">;
using Poisson = MetricClass<"Poisson">;

using Hinge = MetricClass<"Hinge">;
using SquaredHinge = MetricClass<"SquaredHinge">;
using CategoricalHinge = MetricClass<"CategoricalHinge">;

/// The mean of the rows' correlations.
using PearsonCorrelation = MetricClass<"PearsonCorrelation", AxisOptions>;
using ConcordanceCorrelation = MetricClass<"ConcordanceCorrelation", AxisOptions>;

/// The mean of a function's values for each example: `[batch, ...]`.
class STRATA_API MeanMetricWrapper : public Metric {
 public:
  explicit MeanMetricWrapper(losses::Loss::Function function, const std::string& name = "mean");
};

}  // namespace strata::metrics
