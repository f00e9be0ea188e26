#include "strata/keras/iou_metrics.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

#include "keras/metrics/registry.h"

namespace strata::metrics {

using at::Tensor;

template <typename Config>
void visit(Config& config, IoUOptions& options) {
  visit_common(config, options);
  config("num_classes", options.num_classes);
  config("target_class_ids", options.target_class_ids);
  config("ignore_class", options.ignore_class);
  config("sparse_y_true", options.sparse_y_true);
  config("sparse_y_pred", options.sparse_y_pred);
  config("axis", options.axis);
}
template <typename Config>
void visit(Config& config, BinaryIoUOptions& options) {
  visit_common(config, options);
  config("target_class_ids", options.target_class_ids);
  config("threshold", options.threshold);
}
template <typename Config>
void visit(Config& config, MeanIoUOptions& options) {
  visit_common(config, options);
  config("num_classes", options.num_classes);
  config("ignore_class", options.ignore_class);
  config("sparse_y_true", options.sparse_y_true);
  config("sparse_y_pred", options.sparse_y_pred);
  config("axis", options.axis);
}
template <typename Config>
void visit(Config& config, OneHotIoUOptions& options) {
  visit_common(config, options);
  config("num_classes", options.num_classes);
  config("target_class_ids", options.target_class_ids);
  config("ignore_class", options.ignore_class);
  config("sparse_y_pred", options.sparse_y_pred);
  config("axis", options.axis);
}
template <typename Config>
void visit(Config& config, OneHotMeanIoUOptions& options) {
  visit_common(config, options);
  config("num_classes", options.num_classes);
  config("ignore_class", options.ignore_class);
  config("sparse_y_pred", options.sparse_y_pred);
  config("axis", options.axis);
}

namespace {

/// What the five classes are, in one.
struct Settings {
  int64_t num_classes = 2;
  std::vector<int64_t> targets = {};
  std::optional<int64_t> ignore_class = {};
  bool sparse_y_true = true;
  bool sparse_y_pred = true;
  int64_t axis = -1;
  std::optional<double> threshold = {};
};

std::vector<int64_t> all_classes(int64_t count) {
  std::vector<int64_t> classes(static_cast<size_t>(std::max<int64_t>(count, 0)));
  std::iota(classes.begin(), classes.end(), 0);
  return classes;
}

Settings settings_of(const IoUOptions& o) {
  return {o.num_classes,
          o.target_class_ids,
          o.ignore_class,
          o.sparse_y_true,
          o.sparse_y_pred,
          o.axis,
          {}};
}
Settings settings_of(const BinaryIoUOptions& o) {
  return {.num_classes = 2, .targets = o.target_class_ids, .threshold = o.threshold};
}
Settings settings_of(const MeanIoUOptions& o) {
  return {o.num_classes,
          all_classes(o.num_classes),
          o.ignore_class,
          o.sparse_y_true,
          o.sparse_y_pred,
          o.axis,
          {}};
}
Settings settings_of(const OneHotIoUOptions& o) {
  return {o.num_classes, o.target_class_ids, o.ignore_class, false, o.sparse_y_pred, o.axis, {}};
}
Settings settings_of(const OneHotMeanIoUOptions& o) {
  return {o.num_classes,
          all_classes(o.num_classes),
          o.ignore_class,
          false,
          o.sparse_y_pred,
          o.axis,
          {}};
}

Tensor classes_of(const Tensor& x, bool sparse, int64_t axis) {
  return (sparse ? x : x.argmax(axis)).reshape({-1}).to(at::kLong);
}

template <typename Options>
class IntersectionOverUnion final : public OptionsMetric<Options> {
 public:
  IntersectionOverUnion(std::string_view class_name, const Options& options)
      : OptionsMetric<Options>(class_name, options), settings_(settings_of(options)) {
    STRATA_CHECK(settings_.num_classes > 0, kInvalidArgument, "[metrics] ", class_name,
                 ": got num_classes ", settings_.num_classes, "; expected 1 or more");
    STRATA_CHECK(!settings_.targets.empty(), kInvalidArgument, "[metrics] ", class_name,
                 ": got no target_class_ids");
    for (const int64_t each : settings_.targets) {
      STRATA_CHECK(each >= 0 && each < settings_.num_classes, kInvalidArgument, "[metrics] ",
                   class_name, ": got target class ", each, "; expected 0 to ",
                   settings_.num_classes - 1);
    }
    whole_weights_ = options.dtype.find("int") != std::string::npos;
  }

 private:
  void do_build(const keras::Shape&, const keras::Shape&) override {
    matrix_ = this->add_variable("total_confusion_matrix",
                                 {settings_.num_classes, settings_.num_classes});
  }

  void do_update_state(const MetricInput& input) override {
    const int64_t n = settings_.num_classes;
    const Tensor scores =
        settings_.threshold ? (input.y_pred >= *settings_.threshold) : input.y_pred;
    const Tensor y_true = classes_of(input.y_true, settings_.sparse_y_true, settings_.axis);
    const Tensor y_pred = classes_of(scores, settings_.sparse_y_pred, settings_.axis);
    STRATA_CHECK(y_true.numel() == y_pred.numel(), kInvalidArgument, "[metrics] ", this->name(),
                 ": got y_true of shape ", input.y_true.sizes(), " and y_pred of shape ",
                 input.y_pred.sizes(), "; expected as many classes in both");
    Tensor counts = (y_true >= 0).logical_and_(y_true < n);
    counts = counts.logical_and_(y_pred >= 0).logical_and_(y_pred < n);
    if (settings_.ignore_class) counts = counts.logical_and_(y_true != *settings_.ignore_class);
    const Tensor cell = (y_true * n + y_pred).masked_fill_(counts.logical_not(), 0);
    Tensor weight = counts.to(at::kDouble);
    if (input.sample_weight.defined()) {
      Tensor given = input.sample_weight.to(at::kDouble).reshape({-1});
      STRATA_CHECK(given.numel() == 1 || given.numel() == weight.numel(), kInvalidArgument,
                   "[metrics] ", this->name(), ": got sample_weight of shape ",
                   input.sample_weight.sizes(), " for ", weight.numel(),
                   " values; expected one for each");
      weight = weight * (whole_weights_ ? given.trunc() : given);
    }
    this->add(*matrix_,
              at::zeros({n * n}, weight.options()).index_add_(0, cell, weight).reshape({n, n}));
  }

  Tensor do_result() const override {
    const Tensor matrix = this->read(*matrix_);
    const Tensor targets = at::tensor(settings_.targets, at::kLong);
    const Tensor right = matrix.diagonal().index_select(0, targets);
    const Tensor together =
        (matrix.sum(0) + matrix.sum(1) - matrix.diagonal()).index_select(0, targets);
    const Tensor occurs = together > 1e-9;
    const Tensor shares = (right / (together + kEpsilon)).masked_fill(occurs.logical_not(), 0);
    return shares.sum() / (occurs.to(at::kDouble).sum() + kEpsilon);
  }

  Settings settings_;
  bool whole_weights_ = true;
  std::optional<Variable> matrix_;
};

template <typename Options>
std::shared_ptr<MetricImpl> make_iou(std::string_view class_name, const Options& options) {
  return std::make_shared<IntersectionOverUnion<Options>>(class_name, options);
}

}  // namespace

void add_iou_metrics(std::vector<Registered>& list) {
  add_class<IoUOptions, make_iou<IoUOptions>>(list, "IoU");
  add_class<BinaryIoUOptions, make_iou<BinaryIoUOptions>>(list, "BinaryIoU");
  add_class<MeanIoUOptions, make_iou<MeanIoUOptions>>(list, "MeanIoU");
  add_class<OneHotIoUOptions, make_iou<OneHotIoUOptions>>(list, "OneHotIoU");
  add_class<OneHotMeanIoUOptions, make_iou<OneHotMeanIoUOptions>>(list, "OneHotMeanIoU");
}

#define STRATA_MAKE_METRIC(Options)                                                              \
  std::shared_ptr<MetricImpl> make_metric(std::string_view class_name, const Options& options) { \
    return make_iou(class_name, options);                                                        \
  }
STRATA_MAKE_METRIC(IoUOptions)
STRATA_MAKE_METRIC(BinaryIoUOptions)
STRATA_MAKE_METRIC(MeanIoUOptions)
STRATA_MAKE_METRIC(OneHotIoUOptions)
STRATA_MAKE_METRIC(OneHotMeanIoUOptions)
#undef STRATA_MAKE_METRIC

}  // namespace strata::metrics
