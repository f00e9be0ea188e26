#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/keras/metric_options.h"

/// Intersection over union of classes, from a confusion matrix: true / (true + false positives +
/// false negatives), the mean of the classes that occur. Any shapes with equal numbers of elements;
/// values that are no class are left out. Source: keras.metrics 3.15, names and defaults.
namespace strata::metrics {

struct IoUOptions {
  int64_t num_classes = 0;                     ///< needed
  std::vector<int64_t> target_class_ids = {};  ///< needed: the classes whose mean it is
  std::string name = {};
  std::string dtype = "int64";  ///< of an integer kind: sample weights are cut to whole numbers
  std::optional<int64_t> ignore_class = {};
  bool sparse_y_true = true;  ///< class numbers; else scores or one-hot, along `axis`
  bool sparse_y_pred = true;
  int64_t axis = -1;
};

struct BinaryIoUOptions {
  std::vector<int64_t> target_class_ids = {0, 1};
  double threshold = 0.5;  ///< from it on a prediction is class 1
  std::string name = {};
  std::string dtype = "int64";
};

struct MeanIoUOptions {
  int64_t num_classes = 0;  ///< needed
  std::string name = {};
  std::string dtype = "int64";
  std::optional<int64_t> ignore_class = {};
  bool sparse_y_true = true;
  bool sparse_y_pred = true;
  int64_t axis = -1;
};

struct OneHotIoUOptions {
  int64_t num_classes = 0;                     ///< needed
  std::vector<int64_t> target_class_ids = {};  ///< needed
  std::string name = {};
  std::string dtype = "int64";
  std::optional<int64_t> ignore_class = {};
  bool sparse_y_pred = false;
  int64_t axis = -1;
};

struct OneHotMeanIoUOptions {
  int64_t num_classes = 0;  ///< needed
  std::string name = {};
  std::string dtype = "int64";
  std::optional<int64_t> ignore_class = {};
  bool sparse_y_pred = false;
  int64_t axis = -1;
};

STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view, const IoUOptions&);
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view, const BinaryIoUOptions&);
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view, const MeanIoUOptions&);
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view, const OneHotIoUOptions&);
STRATA_API std::shared_ptr<MetricImpl> make_metric(std::string_view, const OneHotMeanIoUOptions&);

using IoU = MetricClass<"IoU", IoUOptions>;
using BinaryIoU = MetricClass<"BinaryIoU", BinaryIoUOptions>;
using MeanIoU = MetricClass<"MeanIoU", MeanIoUOptions>;
using OneHotIoU = MetricClass<"OneHotIoU", OneHotIoUOptions>;
using OneHotMeanIoU = MetricClass<"OneHotMeanIoU", OneHotMeanIoUOptions>;

}  // namespace strata::metrics
