#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/json.h"
#include "strata/core/one_of.h"
#include "strata/keras/metric.h"

/// Metrics from counts of true and false positives and negatives at thresholds. `y_true` is 0 or 1
/// (all but 0 is 1), `y_pred` in [0, 1], of equal shape; a prediction is positive above the
/// threshold. Source: keras.metrics 3.15, names and defaults.
namespace strata::metrics {

/// One threshold, several, or none (the class's default). With several the result is a vector.
struct STRATA_API Thresholds {
  Thresholds() = default;
  Thresholds(double one) : values{one} {}  // NOLINT(google-explicit-constructor)
  Thresholds(std::initializer_list<double> list) : values(list), is_list(true) {}
  Thresholds(std::vector<double> list)  // NOLINT(google-explicit-constructor)
      : values(std::move(list)), is_list(true) {}

  std::vector<double> values = {};
  bool is_list = false;
};
STRATA_API Json to_config(const Thresholds& thresholds);
STRATA_API void from_config(const Json& json, Thresholds& thresholds);

struct ThresholdsOptions {
  Thresholds thresholds = {};  ///< in [0, 1]; 0.5
  std::string name = {};
  std::string dtype = "float32";
};

/// The options of Precision and Recall.
struct PrecisionOptions {
  Thresholds thresholds = {};         ///< in [0, 1]; default 0.5, or none with top_k
  std::optional<int64_t> top_k = {};  ///< only the k largest predictions of a row can be positive
  std::optional<int64_t> class_id = {};  ///< only this column counts
  std::string name = {};
  std::string dtype = "float32";
};

/// The metric is the best value of the one rate at a threshold at which the other is at least
/// `value`.
struct SensitivityAtSpecificityOptions {
  double specificity = -1;  ///< needed; in [0, 1]
  int64_t num_thresholds = 200;
  std::optional<int64_t> class_id = {};
  std::string name = {};
  std::string dtype = "float32";
};
struct SpecificityAtSensitivityOptions {
  double sensitivity = -1;  ///< needed; in [0, 1]
  int64_t num_thresholds = 200;
  std::optional<int64_t> class_id = {};
  std::string name = {};
  std::string dtype = "float32";
};
struct PrecisionAtRecallOptions {
  double recall = -1;  ///< needed; in [0, 1]
  int64_t num_thresholds = 200;
  std::optional<int64_t> class_id = {};
  std::string name = {};
  std::string dtype = "float32";
};
struct RecallAtPrecisionOptions {
  double precision = -1;  ///< needed; in [0, 1]
  int64_t num_thresholds = 200;
  std::optional<int64_t> class_id = {};
  std::string name = {};
  std::string dtype = "float32";
};

struct AUCCurveWords {
  enum Word { kROC, kPR, kPRGain };
  static constexpr const char* kOption = "curve";
  static constexpr const char* kWords[] = {"ROC", "PR", "PRGAIN"};
};
using AUCCurve = OneOf<AUCCurveWords>;

struct AUCSummationWords {
  enum Word { kInterpolation, kMajoring, kMinoring };
  static constexpr const char* kOption = "summation_method";
  static constexpr const char* kWords[] = {"interpolation", "majoring", "minoring"};
};
using AUCSummation = OneOf<AUCSummationWords>;

struct AUCOptions {
  int64_t num_thresholds = 200;                     ///< at least 2
  AUCCurve curve = "ROC";                           ///< "ROC", "PR", "PRGAIN"
  AUCSummation summation_method = "interpolation";  ///< "interpolation", "majoring", "minoring"
  std::string name = {};
  std::string dtype = "float32";
  std::vector<double> thresholds = {};     ///< instead of num_thresholds evenly spaced ones
  bool multi_label = false;                ///< `[batch, labels]`: the mean of the labels' areas
  std::optional<int64_t> num_labels = {};  ///< for multi_label; unset: from the shapes
  std::vector<double> label_weights = {};
  bool from_logits = false;
};

STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view, const ThresholdsOptions&);
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view, const PrecisionOptions&);
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view,
                                                   const SensitivityAtSpecificityOptions&);
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view,
                                                   const SpecificityAtSensitivityOptions&);
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view,
                                                   const PrecisionAtRecallOptions&);
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view,
                                                   const RecallAtPrecisionOptions&);
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view, const AUCOptions&);

using TruePositives = MetricClass<"TruePositives", ThresholdsOptions>;
using TrueNegatives = MetricClass<"TrueNegatives", ThresholdsOptions>;
using FalsePositives = MetricClass<"FalsePositives", ThresholdsOptions>;
using FalseNegatives = MetricClass<"FalseNegatives", ThresholdsOptions>;
using Precision = MetricClass<"Precision", PrecisionOptions>;
using Recall = MetricClass<"Recall", PrecisionOptions>;
using SensitivityAtSpecificity =
    MetricClass<"SensitivityAtSpecificity", SensitivityAtSpecificityOptions>;
using SpecificityAtSensitivity =
    MetricClass<"SpecificityAtSensitivity", SpecificityAtSensitivityOptions>;
using PrecisionAtRecall = MetricClass<"PrecisionAtRecall", PrecisionAtRecallOptions>;
using RecallAtPrecision = MetricClass<"RecallAtPrecision", RecallAtPrecisionOptions>;
using AUC = MetricClass<"AUC", AUCOptions>;

}  // namespace strata::metrics
