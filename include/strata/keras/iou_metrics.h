#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/keras/metric.h"

/// Intersection over union of classes, from a confusion matrix: true / (true + false positives +
/// false negatives), the mean of the classes that occur. Any shapes with equal numbers of elements;
/// values outside the classes are left out. Source: keras.metrics 3.15, names and defaults.
namespace strata::metrics {

struct IoUOptions {
  int64_t num_classes = 0;                     ///< required
  std::vector<int64_t> target_class_ids = {};  ///< required: the classes of the mean
  std::string name = {};
  std::string dtype = "int64";  ///< an integer dtype: sample weights are cut to whole numbers
  std::optional<int64_t> ignore_class = {};
  bool sparse_y_true = true;  ///< class numbers; else scores or one-hot, along `axis`
  bool sparse_y_pred = true;
  int64_t axis = -1;
};

struct BinaryIoUOptions {
  std::vector<int64_t> target_class_ids = {0, 1};
  double threshold = 0.5;  ///< predictions from it on are class 1
  std::string name = {};
  std::string dtype = "int64";
};

struct MeanIoUOptions {
  int64_t num_classes = 0;  ///< required
  std::string name = {};
  std::string dtype = "int64";
  std::optional<int64_t> ignore_class = {};
  bool sparse_y_true = true;
  bool sparse_y_pred = true;
  int64_t axis = -1;
};

struct OneHotIoUOptions {
  int64_t num_classes = 0;                     ///< required
  std::vector<int64_t> target_class_ids = {};  ///< required
  std::string name = {};
  std::string dtype = "int64";
  std::optional<int64_t> ignore_class = {};
  bool sparse_y_pred = false;
  int64_t axis = -1;
};

struct OneHotMeanIoUOptions {
  int64_t num_classes = 0;  ///< required
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
