#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <utility>

#include "estimator/heads/head_impl.h"
#include "strata/core/error.h"
#include "strata/estimator/feature_layers.h"
#include "strata/keras/confusion_metrics.h"

namespace strata::estimator {
namespace detail {
namespace {

at::Tensor like_values(const at::Tensor& weights, const at::Tensor& values) {
  return weights.defined() ? weights.expand_as(values) : weights;
}

class BinaryClassHead final : public SingleHead {
 public:
  explicit BinaryClassHead(const BinaryClassHeadOptions& options)
      : SingleHead(options.name, options.loss_reduction, options.weight_column),
        thresholds_(options.thresholds),
        classes_(2, options.label_vocabulary) {}

  std::map<std::string, ExportOutput> export_outputs() const override {
    std::map<std::string, ExportOutput> outputs = classifier_outputs();
    outputs["regression"] = {.method = "regress", .outputs = {{"outputs", "logistic"}}};
    return outputs;
  }
  int64_t logits_dimension() const override { return 1; }

  Features predictions(const at::Tensor& logits) const override {
    const at::Tensor two = at::cat({at::zeros_like(logits), logits}, -1);
    const at::Tensor ids = class_ids(logits);
    Features predictions = {{"logits", {.values = logits}},
                            {"logistic", {.values = at::sigmoid(logits)}},
                            {"probabilities", {.values = at::softmax(two, -1)}},
                            {"class_ids", {.values = ids}},
                            {"classes", classes_.texts_of(ids)}};
    classes_.add_all(logits, predictions);
    return predictions;
  }

 private:
  const char* head() const override { return "binary_class_head"; }
  /// The larger of the logits 0 and x; the first of equal ones.
  static at::Tensor class_ids(const at::Tensor& logits) { return (logits > 0).to(at::kLong); }

  at::Tensor labels_of(const Feature& given, const at::Tensor& logits) const override {
    const at::Tensor values = classes_.has_words() ? classes_.ids_of(given) : given.values;
    const at::Tensor labels = shaped(values, logits, 1).to(logits.scalar_type());
    check_range(labels, 0, 1, "[head] binary_class_head: Labels must be >= 0 and <= n_classes - 1");
    return labels;
  }
  at::Tensor losses(const at::Tensor& labels, const at::Tensor& logits) const override {
    return sigmoid_cross_entropy(labels, logits);
  }

  std::vector<EvalMetric> more_metrics(const Evaluated& of) const override {
    const at::Tensor logistic = at::sigmoid(of.logits).detach();
    const at::Tensor ids = class_ids(of.logits).to(at::kFloat);
    EvalMetric baseline = mean("accuracy_baseline", of.labels, of);
    baseline.value = [label_mean = baseline.value] {
      const double value = label_mean();
      return std::max(value, 1 - value);
    };
    std::vector<EvalMetric> all = {
        mean("accuracy", ids == of.labels, of),
        std::move(baseline),
        mean("label/mean", of.labels, of),
        mean("prediction/mean", logistic, of),
        of.context.metric<metrics::Precision>(metric("precision"), of.labels, ids, of.weights),
        of.context.metric<metrics::Recall>(metric("recall"), of.labels, ids, of.weights),
        of.context.metric<metrics::AUC>(metric("auc"), of.labels, logistic, of.weights),
        of.context.metric<metrics::AUC>(metric("auc_precision_recall"), of.labels, logistic,
                                        of.weights, metrics::AUCOptions{.curve = "PR"})};
    for (const double threshold : thresholds_) {
      const std::string at = "/positive_threshold_" + threshold_text(threshold);
      const at::Tensor positive = (logistic > threshold).to(at::kFloat);
      all.push_back(mean("accuracy" + at, positive == of.labels, of));
      all.push_back(of.context.metric<metrics::Precision>(metric("precision" + at), of.labels,
                                                          positive, of.weights));
      all.push_back(of.context.metric<metrics::Recall>(metric("recall" + at), of.labels, positive,
                                                       of.weights));
    }
    return all;
  }

  const std::vector<double> thresholds_;
  const ClassNames classes_;
};

class MultiClassHead final : public SingleHead {
 public:
  MultiClassHead(int64_t n_classes, const MultiClassHeadOptions& options)
      : SingleHead(options.name, options.loss_reduction, options.weight_column),
        classes_(n_classes, options.label_vocabulary) {}

  std::map<std::string, ExportOutput> export_outputs() const override {
    return classifier_outputs();
  }
  int64_t logits_dimension() const override { return classes_.size(); }

  Features predictions(const at::Tensor& logits) const override {
    const at::Tensor ids = logits.argmax(-1, /*keepdim=*/true);
    Features predictions = {{"logits", {.values = logits}},
                            {"probabilities", {.values = at::softmax(logits, -1)}},
                            {"class_ids", {.values = ids}},
                            {"classes", classes_.texts_of(ids)}};
    classes_.add_all(logits, predictions);
    return predictions;
  }

 private:
  const char* head() const override { return "multi_class_head"; }

  at::Tensor labels_of(const Feature& given, const at::Tensor& logits) const override {
    STRATA_CHECK(
        classes_.has_words() ||
            (!given.is_text && at::isIntegralType(given.values.scalar_type(), false)),
        kInvalidArgument, "[head] multi_class_head: Labels dtype should be integer. Got ",
        given.is_text ? "text; pass label_vocabulary" : toString(given.values.scalar_type()));
    const at::Tensor values = classes_.has_words() ? classes_.ids_of(given) : given.values;
    const at::Tensor labels = shaped(values, logits, 1).to(at::kLong);
    check_range(labels, 0, static_cast<double>(classes_.size() - 1),
                "[head] multi_class_head: Labels must be >= 0 and <= n_classes - 1");
    return labels;
  }
  at::Tensor losses(const at::Tensor& labels, const at::Tensor& logits) const override {
    return -at::log_softmax(logits, -1).gather(-1, labels);
  }
  std::vector<EvalMetric> more_metrics(const Evaluated& of) const override {
    return {mean("accuracy", of.logits.argmax(-1, true) == of.labels, of)};
  }

  const ClassNames classes_;
};

class MultiLabelHead final : public SingleHead {
 public:
  MultiLabelHead(int64_t n_classes, const MultiLabelHeadOptions& options)
      : SingleHead(options.name, options.loss_reduction, options.weight_column),
        thresholds_(options.thresholds),
        measured_(options.classes_for_class_based_metrics),
        classes_(n_classes, options.label_vocabulary) {}

  std::map<std::string, ExportOutput> export_outputs() const override {
    std::map<std::string, ExportOutput> outputs = classifier_outputs();
    // Of all classes, as there is no best one.
    outputs["serving_default"].outputs["classes"] = "classes";
    outputs["classification"].outputs["classes"] = "classes";
    return outputs;
  }
  int64_t logits_dimension() const override { return classes_.size(); }

  Features predictions(const at::Tensor& logits) const override {
    return {{"logits", {.values = logits}},
            {"probabilities", {.values = at::sigmoid(logits)}},
            {"classes", classes_.all_of(logits)}};
  }

 private:
  const char* head() const override { return "multi_label_head"; }

  at::Tensor labels_of(const Feature& given, const at::Tensor& logits) const override {
    if (given.is_text || given.is_sparse) return classes_of(given, logits);
    const at::Tensor labels =
        shaped(given.values, logits, classes_.size()).to(logits.scalar_type());
    check_range(labels, 0, 1,
                "[head] multi_label_head: labels must be an integer tensor of 0 and 1");
    return labels;
  }

  /// Class numbers or words, behind which are -1 or empty texts.
  at::Tensor classes_of(const Feature& given, const at::Tensor& logits) const {
    const at::Tensor ids = classes_.has_words() ? classes_.ids_of(given) : given.values;
    STRATA_CHECK(ids.dim() == 2, kInvalidArgument, "[head] multi_label_head: got class numbers of ",
                 "shape ", ids.sizes(), "; expected [rows, most]");
    check_range(ids, -1, static_cast<double>(classes_.size() - 1),
                "[head] multi_label_head: Labels must be >= 0 and <= n_classes - 1");
    const at::Tensor valid = ids >= 0;
    const at::Tensor index =
        at::where(valid, ids.to(at::kLong), at::zeros({}, ids.options().dtype(at::kLong)));
    return at::zeros({ids.size(0), classes_.size()}, logits.options())
        .scatter_add(1, index, valid.to(logits.scalar_type()))
        .clamp_max(1);
  }

  at::Tensor losses(const at::Tensor& labels, const at::Tensor& logits) const override {
    return sigmoid_cross_entropy(labels, logits).mean(-1, /*keepdim=*/true);
  }

  std::vector<EvalMetric> more_metrics(const Evaluated& of) const override {
    const at::Tensor probabilities = at::sigmoid(of.logits).detach();
    const at::Tensor weights = like_values(of.weights, probabilities);
    std::vector<EvalMetric> all;
    const auto add_areas = [&](const std::string& behind, const at::Tensor& labels,
                               const at::Tensor& predicted, const at::Tensor& w) {
      all.push_back(of.context.metric<metrics::AUC>(metric("auc" + behind), labels, predicted, w));
      all.push_back(of.context.metric<metrics::AUC>(metric("auc_precision_recall" + behind), labels,
                                                    predicted, w,
                                                    metrics::AUCOptions{.curve = "PR"}));
    };
    add_areas("", of.labels, probabilities, weights);
    for (const double threshold : thresholds_) {
      const std::string at = "/positive_threshold_" + threshold_text(threshold);
      const at::Tensor positive = (probabilities > threshold).to(at::kFloat);
      all.push_back(mean("accuracy" + at, positive == of.labels, of));
      all.push_back(of.context.metric<metrics::Precision>(metric("precision" + at), of.labels,
                                                          positive, weights));
      all.push_back(
          of.context.metric<metrics::Recall>(metric("recall" + at), of.labels, positive, weights));
    }
    for (const int64_t c : measured_) {
      const std::string behind =
          "/" + (classes_.has_words() ? classes_.at(c) : "class" + std::to_string(c));
      const at::Tensor column = probabilities.narrow(-1, c, 1);
      all.push_back(mean("probability_mean" + behind, column, of));
      add_areas(behind, of.labels.narrow(-1, c, 1).contiguous(), column.contiguous(), of.weights);
    }
    return all;
  }

  const std::vector<double> thresholds_;
  const std::vector<int64_t> measured_;
  const ClassNames classes_;
};

}  // namespace
}  // namespace detail

Head binary_class_head(const BinaryClassHeadOptions& options) {
  options.loss_reduction.check("[head] binary_class_head");
  detail::check_thresholds(options.thresholds, "binary_class_head");
  return Head(std::make_shared<detail::BinaryClassHead>(options));
}

Head multi_class_head(int64_t n_classes, const MultiClassHeadOptions& options) {
  options.loss_reduction.check("[head] multi_class_head");
  STRATA_CHECK(n_classes > 2, kInvalidArgument,
               "[head] multi_class_head: n_classes must be > 2: ", n_classes, ".");
  return Head(std::make_shared<detail::MultiClassHead>(n_classes, options));
}

Head multi_label_head(int64_t n_classes, const MultiLabelHeadOptions& options) {
  options.loss_reduction.check("[head] multi_label_head");
  detail::check_thresholds(options.thresholds, "multi_label_head");
  STRATA_CHECK(n_classes >= 2, kInvalidArgument, "[head] multi_label_head: n_classes must be > 1 ",
               "for multi-label classification. Given: ", n_classes);
  for (const int64_t c : options.classes_for_class_based_metrics) {
    STRATA_CHECK(c >= 0 && c < n_classes, kInvalidArgument,
                 "[head] multi_label_head: ", "classes_for_class_based_metrics has ", c,
                 "; expected classes below ", n_classes);
  }
  return Head(std::make_shared<detail::MultiLabelHead>(n_classes, options));
}

}  // namespace strata::estimator
