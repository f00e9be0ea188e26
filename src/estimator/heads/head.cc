#include "strata/estimator/head.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>

#include <cstdio>
#include <utility>

#include "estimator/columns/column_impl.h"
#include "estimator/heads/head_impl.h"
#include "graph/host_call.h"
#include "strata/core/error.h"
#include "strata/estimator/feature_layers.h"

namespace strata::estimator {

const std::string& Head::name() const { return impl_->name(); }
int64_t Head::logits_dimension() const { return impl_->logits_dimension(); }
const LossReduction& Head::loss_reduction() const { return impl_->reduction(); }
Features Head::predictions(const at::Tensor& logits) const { return impl_->predictions(logits); }
at::Tensor Head::loss(const at::Tensor& logits, const Labels& labels,
                      const Features& features) const {
  return impl_->loss(logits, labels, features);
}
std::vector<EvalMetric> Head::metrics(const at::Tensor& logits, const Labels& labels,
                                      const Features& features, ModelContext& context) const {
  return impl_->metrics(logits, labels, features, context);
}

EstimatorSpec Head::create_estimator_spec(const Features& features, Mode mode,
                                          const at::Tensor& logits, const Labels& labels,
                                          ModelContext& context, const TrainOp& train_op) const {
  STRATA_CHECK(logits.dim() >= 2 && logits.size(-1) == logits_dimension(), kInvalidArgument,
               "[head] got logits of shape ", logits.sizes(), "; expected [rows, ..., ",
               logits_dimension(), "]");
  EstimatorSpec spec;
  if (mode != Mode::kTrain) spec.predictions = predictions(logits);
  if (mode == Mode::kPredict) {
    spec.export_outputs = impl_->export_outputs();
    return spec;
  }
  spec.loss = loss(logits, labels, features);
  if (loss_reduction() == LossReduction::kSum) spec.loss_over_replicas = LossOverReplicas::kSum;
  if (mode == Mode::kEval) {
    spec.eval_metrics = metrics(logits, labels, features, context);
  } else {
    STRATA_CHECK(train_op, kInvalidArgument, "[head] create_estimator_spec: got no train_op; ",
                 "expected one for training");
    spec.train_op = train_op(spec.loss);
  }
  return spec;
}

namespace detail {

at::Tensor sigmoid_cross_entropy(const at::Tensor& labels, const at::Tensor& logits) {
  return at::binary_cross_entropy_with_logits(logits, labels, {}, {}, at::Reduction::None);
}

void check_range(const at::Tensor& values, double least, double most, const std::string& message) {
  graph::call_host(
      "strata::check_range", {values}, {},
      [least, most, message](const std::vector<at::Tensor>& inputs) {
        const at::Tensor& given = inputs.at(0);
        if (given.numel() > 0) {
          STRATA_CHECK(given.min().item<double>() >= least && given.max().item<double>() <= most,
                       kInvalidArgument, message, "; got values from ", given.min().item<double>(),
                       " to ", given.max().item<double>());
        }
        return std::vector<at::Tensor>();
      },
      {}, graph::HostInputs::kOfThisRun);
}

void check_thresholds(const std::vector<double>& thresholds, const char* head) {
  for (const double threshold : thresholds) {
    STRATA_CHECK(threshold > 0 && threshold < 1, kInvalidArgument, "[head] ", head,
                 ": thresholds not in (0, 1): ", threshold, ".");
  }
}

std::map<std::string, ExportOutput> classifier_outputs() {
  const ExportOutput classes = {
      .method = "classify", .outputs = {{"scores", "probabilities"}, {"classes", "all_classes"}}};
  return {{"serving_default", classes}, {"classification", classes}, {"predict", {}}};
}

std::string threshold_text(double threshold) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", threshold);
  return text;
}

ClassNames::ClassNames(int64_t n_classes, const std::vector<std::string>& words) {
  STRATA_CHECK(words.empty() || static_cast<int64_t>(words.size()) == n_classes, kInvalidArgument,
               "[head] \"label_vocabulary\" does not have \"n_classes\" items. "
               "len(label_vocabulary)=",
               words.size(), ", n_classes=", n_classes);
  std::vector<std::string> texts = words;
  if (words.empty()) {
    for (int64_t i = 0; i < n_classes; ++i) texts.push_back(std::to_string(i));
  } else {
    index_ = feature_column::categorical_column_with_vocabulary_list("labels", words);
  }
  table_ = text_feature(texts).values;
}

std::string ClassNames::at(int64_t class_id) const {
  return text_at({.values = table_, .is_text = true}, class_id);
}

at::Tensor ClassNames::ids_of(const Feature& words) const {
  STRATA_CHECK(words.is_text, kInvalidArgument, "[head] labels: got ",
               toString(words.values.scalar_type()), " with a label_vocabulary; expected texts");
  const at::Tensor ids = feature_column::categorical_ids(*index_, {{"labels", words}}).ids;
  std::vector<int64_t> sizes = words.values.sizes().vec();
  sizes.pop_back();
  return ids.reshape(sizes);
}

Feature ClassNames::texts_of(const at::Tensor& class_ids) const {
  std::vector<int64_t> sizes = class_ids.sizes().vec();
  sizes.push_back(table_.size(1));
  return {
      .values = table_.to(class_ids.device()).index_select(0, class_ids.flatten()).reshape(sizes),
      .is_text = true};
}

Feature ClassNames::all_of(const at::Tensor& logits) const {
  return {.values = table_.to(logits.device())
                        .unsqueeze(0)
                        .expand({logits.size(0), table_.size(0), table_.size(1)})
                        .contiguous(),
          .is_text = true};
}

void ClassNames::add_all(const at::Tensor& logits, Features& predictions) const {
  predictions["all_class_ids"] = {.values = at::arange(size(), logits.options().dtype(at::kInt))
                                                .unsqueeze(0)
                                                .expand({logits.size(0), size()})
                                                .contiguous()};
  predictions["all_classes"] = all_of(logits);
}

at::Tensor SingleHead::shaped(const at::Tensor& labels, const at::Tensor& logits,
                              int64_t dimension) const {
  at::Tensor shaped = labels;
  if (labels.dim() == logits.dim() - 1) shaped = labels.unsqueeze(-1);
  const at::IntArrayRef rows = logits.sizes().slice(0, static_cast<size_t>(logits.dim() - 1));
  STRATA_CHECK(shaped.dim() == logits.dim() && shaped.size(-1) == dimension &&
                   shaped.sizes().slice(0, rows.size()) == rows,
               kInvalidArgument, "[head] ", head(), ": Mismatched label shape. Expected ",
               "labels dimension=", dimension, ". Received labels of shape ", labels.sizes(),
               " with logits of shape ", logits.sizes());
  return shaped;
}

at::Tensor SingleHead::labels_of_head(const Labels& labels, const at::Tensor& logits) const {
  STRATA_CHECK(!labels.empty(), kInvalidArgument, "[head] ", head(),
               ": You must provide a labels Tensor. Given: None. Suggested troubleshooting steps: "
               "Check that your data contain your label feature. Check that your input_fn properly "
               "parses and returns labels.");
  (void)labels.value();  // one of them
  return labels_of(labels.by_name().begin()->second, logits);
}

at::Tensor SingleHead::weights_of(const Features& features, const at::Tensor& losses) const {
  if (std::holds_alternative<std::monostate>(weight_column_)) return {};
  at::Tensor weights;
  std::string column;
  if (const auto* name = std::get_if<std::string>(&weight_column_)) {
    column = *name;
    weights = feature_column::detail::feature_of(features, column).values.to(at::kFloat);
    weights = weights.dim() == 1 ? weights.unsqueeze(-1) : weights.flatten(1);
  } else {
    const auto& numbers = std::get<feature_column::FeatureColumn>(weight_column_);
    column = numbers.name();
    weights = feature_column::input_layer(features, {numbers}, {}, {});
  }
  // [rows, 1] or, as the losses of a regression, [rows, D].
  std::vector<int64_t> sizes(static_cast<size_t>(losses.dim()), 1);
  sizes.front() = losses.size(0);
  if (weights.size(1) != 1) sizes = losses.sizes().vec();
  STRATA_CHECK(weights.size(1) == 1 || weights.numel() == losses.numel(), kInvalidArgument,
               "[head] ", head(), ": the weights '", column, "' have ", weights.size(1),
               " numbers a row; expected 1, or one for each loss: losses have the shape ",
               losses.sizes());
  return weights.reshape(sizes);
}

RowLosses SingleHead::row_losses(const at::Tensor& labels, const at::Tensor& logits,
                                 const Features& features) const {
  RowLosses rows{.losses = losses(labels, logits)};
  rows.weights = weights_of(features, rows.losses);
  return rows;
}

at::Tensor SingleHead::loss(const at::Tensor& logits, const Labels& labels,
                            const Features& features) const {
  const RowLosses rows = row_losses(labels_of_head(labels, logits), logits, features);
  const at::Tensor sum = (rows.weights.defined() ? rows.losses * rows.weights : rows.losses).sum();
  if (reduction() == LossReduction::kSum) return sum;
  return sum / static_cast<double>(std::max<int64_t>(rows.losses.numel(), 1));
}

EvalMetric SingleHead::mean(const std::string& key, const at::Tensor& values,
                            const Evaluated& of) const {
  const at::Tensor weights =
      of.weights.defined() ? of.weights.expand_as(values).flatten() : at::Tensor();
  return of.context.mean(metric(key), values.to(at::kFloat).flatten(), weights);
}

std::vector<EvalMetric> SingleHead::metrics(const at::Tensor& logits, const Labels& labels,
                                            const Features& features, ModelContext& context) const {
  const at::Tensor given = labels_of_head(labels, logits);
  const RowLosses rows = row_losses(given, logits, features);
  const Evaluated evaluated{logits, given, rows.weights, context};
  std::vector<EvalMetric> metrics = more_metrics(evaluated);
  metrics.push_back(mean("average_loss", rows.losses, evaluated));
  return metrics;
}

}  // namespace detail
}  // namespace strata::estimator
