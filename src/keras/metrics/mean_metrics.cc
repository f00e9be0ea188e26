#include "strata/keras/mean_metrics.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/square.h>

#include <cmath>
#include <span>
#include <type_traits>
#include <utility>

#include "keras/losses/rule.h"
#include "keras/metrics/registry.h"
#include "optim/metrics/mean_sums.h"
#include "optim/shapes.h"
#include "strata/optim/losses.h"
#include "strata/optim/metrics.h"

namespace strata::metrics {

using at::Tensor;
using losses::LossValues;

template <typename Config>
void visit(Config& config, MetricOptions& options) {
  visit_common(config, options);
}
template <typename Config>
void visit(Config& config, BinaryAccuracyOptions& options) {
  visit_common(config, options);
  config("threshold", options.threshold);
}
template <typename Config>
void visit(Config& config, TopKOptions& options) {
  visit_common(config, options);
  config("k", options.k);
}
template <typename Config>
void visit(Config& config, SparseTopKOptions& options) {
  visit_common(config, options);
  config("k", options.k);
  if (!std::is_same_v<Config, keras::ConfigWriter> || options.from_sorted_ids) {
    config("from_sorted_ids", options.from_sorted_ids);
  }
}
template <typename Config>
void visit(Config& config, BinaryCrossentropyOptions& options) {
  visit_common(config, options);
  config("from_logits", options.from_logits);
  config("label_smoothing", options.label_smoothing);
}
template <typename Config>
void visit(Config& config, CategoricalCrossentropyOptions& options) {
  visit_common(config, options);
  config("from_logits", options.from_logits);
  config("label_smoothing", options.label_smoothing);
  config("axis", options.axis);
}
template <typename Config>
void visit(Config& config, SparseCategoricalCrossentropyOptions& options) {
  visit_common(config, options);
  config("from_logits", options.from_logits);
  config("ignore_class", options.ignore_class);
  config("axis", options.axis);
}
template <typename Config>
void visit(Config& config, AxisOptions& options) {
  visit_common(config, options);
  config("axis", options.axis);
}
template <typename Config>
void visit(Config& config, CosineSimilarityOptions& options) {
  visit_common(config, options);
  // Keras takes it, and leaves it out of its own configs.
  if (!std::is_same_v<Config, keras::ConfigWriter> || options.axis != -1) {
    config("axis", options.axis);
  }
}

namespace {

/// Half precision in float32, as the losses.
Tensor at_least_float(const Tensor& x) {
  return x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x;
}

/// State and arithmetic of every mean: keras.metrics.MeanMetricWrapper.
struct MeanState {
  std::optional<Variable> total = {}, count = {};

  void update(const LossValues& from, const MetricInput& input) {
    Tensor weight = input.sample_weight;
    if (input.mask.defined()) weight = times_mask(weight, input.mask);
    // Keras looks at a mask of the values only where there are weights.
    if (weight.defined() && from.mask.defined()) weight = times_mask(weight, from.mask);
    add_to_mean(*total, *count, from.values, weight);
  }

  Tensor result() const {
    const Tensor sum = total->value().cpu(), weights = count->value().cpu();
    return weights.item<double>() == 0 ? sum : sum / weights;
  }

  static Tensor times_mask(const Tensor& weight, const Tensor& mask) {
    Tensor factor = mask.to(at::kFloat);
    if (!weight.defined()) return factor;
    Tensor fitted = weight.to(at::kFloat);
    if (fitted.dim() > factor.dim()) std::swap(fitted, factor);
    strata::detail::match_weight("[metrics] update_state", factor, fitted);
    return factor * fitted;
  }
};

/// One of the table.
template <typename Options>
struct Entry {
  std::string_view class_name, name;
  LossValues (*call)(const Tensor&, const Tensor&, const Options&);
  bool root = false;  ///< the result is the root of the mean
};

template <typename Options>
class MeanOf final : public OptionsMetric<Options> {
 public:
  MeanOf(const Entry<Options>& entry, Options options)
      : OptionsMetric<Options>(entry.class_name, std::move(options)), entry_(entry) {}

 private:
  void do_build(const keras::Shape&, const keras::Shape&) override {
    state_.total = this->add_variable("total");
    state_.count = this->add_variable("count");
  }
  void do_update_state(const MetricInput& input) override {
    state_.update(entry_.call(input.y_true, at_least_float(input.y_pred), this->options()), input);
  }
  Tensor do_result() const override {
    const Tensor mean = state_.result();
    return entry_.root ? mean.sqrt() : mean;
  }

  const Entry<Options>& entry_;
  MeanState state_;
};

/// A loss, or a function of the user's.
class MeanOfLoss final : public MetricImpl {
 public:
  using Call = std::function<LossValues(const Tensor&, const Tensor&)>;
  MeanOfLoss(std::string name, Call call) : MetricImpl(std::move(name)), call_(std::move(call)) {}

 private:
  void do_build(const keras::Shape&, const keras::Shape&) override {
    state_.total = add_variable("total");
    state_.count = add_variable("count");
  }
  void do_update_state(const MetricInput& input) override {
    state_.update(call_(input.y_true, input.y_pred), input);
  }
  Tensor do_result() const override { return state_.result(); }

  Call call_;
  MeanState state_;
};

// What each class computes.

Tensor with_last(const Tensor& x, int64_t axis) {
  return axis == -1 || axis == x.dim() - 1 ? x : x.movedim(axis, -1);
}

template <Tensor (*kFunction)(const Tensor&, const Tensor&)>
LossValues plain(const Tensor& y_true, const Tensor& y_pred, const MetricOptions&) {
  return {.values = kFunction(y_true, y_pred)};
}

LossValues binary_accuracy_values(const Tensor& y_true, const Tensor& y_pred,
                                  const BinaryAccuracyOptions& options) {
  return {.values = binary_accuracy(y_true, y_pred, options.threshold)};
}

LossValues top_k(const Tensor& y_true, const Tensor& y_pred, const TopKOptions& options) {
  return {.values = top_k_categorical_accuracy(y_true, y_pred, options.k)};
}

LossValues sparse_top_k(const Tensor& y_true, const Tensor& y_pred,
                        const SparseTopKOptions& options) {
  if (!options.from_sorted_ids) {
    return {.values = sparse_top_k_categorical_accuracy(y_true, y_pred, options.k)};
  }
  Tensor labels = y_true;
  if (labels.dim() < y_pred.dim()) labels = labels.unsqueeze(-1);
  STRATA_CHECK(labels.dim() == y_pred.dim() && labels.size(-1) == 1 && y_pred.dim() > 0 &&
                   labels.size(0) == y_pred.size(0),
               kInvalidArgument,
               "[metrics] sparse_top_k_categorical_accuracy: got y_true of shape ", y_true.sizes(),
               " and y_pred of shape ", y_pred.sizes(),
               "; expected one class number for each row of y_pred");
  const int64_t k = std::min(options.k, y_pred.size(-1));
  return {.values = (labels == y_pred.narrow(-1, 0, k)).any(-1).to(at::kFloat)};
}

LossValues squared_errors(const Tensor& y_true, const Tensor& y_pred, const MetricOptions&) {
  Tensor truth = y_true.to(y_pred.scalar_type()), prediction = y_pred;
  strata::detail::match_shapes("metrics", "root_mean_squared_error", truth, prediction);
  return {.values = at::square(prediction - truth)};
}

LossValues cosine(const Tensor& y_true, const Tensor& y_pred,
                  const CosineSimilarityOptions& options) {
  return {.values = -losses::cosine_similarity(with_last(y_true, options.axis),
                                               with_last(y_pred, options.axis))};
}

LossValues binary_crossentropy(const Tensor& y_true, const Tensor& y_pred,
                               const BinaryCrossentropyOptions& options) {
  return {.values = losses::binary_crossentropy(
              y_true, y_pred,
              {.from_logits = options.from_logits, .label_smoothing = options.label_smoothing})};
}

LossValues categorical_crossentropy(const Tensor& y_true, const Tensor& y_pred,
                                    const CategoricalCrossentropyOptions& options) {
  return {.values = losses::categorical_crossentropy(
              with_last(y_true, options.axis), with_last(y_pred, options.axis),
              {.from_logits = options.from_logits, .label_smoothing = options.label_smoothing})};
}

LossValues sparse_crossentropy(const Tensor& y_true, const Tensor& y_pred,
                               const SparseCategoricalCrossentropyOptions& options) {
  Tensor labels = y_true;
  if (options.axis != -1 && labels.dim() == y_pred.dim()) labels = with_last(labels, options.axis);
  LossValues result{
      .values = losses::sparse_categorical_crossentropy(
          labels, with_last(y_pred, options.axis),
          {.from_logits = options.from_logits, .ignore_class = options.ignore_class})};
  if (options.ignore_class) {
    result.mask = at::ne(labels, *options.ignore_class).view_as(result.values);
  }
  return result;
}

/// Both along the last axis, of equal shape.
struct Rows {
  Tensor y_true, y_pred;
};
Rows rows_of(const char* function, const Tensor& y_true, const Tensor& y_pred,
             const AxisOptions& options) {
  Rows rows{y_true.to(y_pred.scalar_type()), y_pred};
  strata::detail::match_shapes("metrics", function, rows.y_true, rows.y_pred);
  return {with_last(rows.y_true, options.axis), with_last(rows.y_pred, options.axis)};
}

Tensor row_mean(const Tensor& x) { return x.mean(-1, /*keepdim=*/true); }
Tensor row_variance(const Tensor& centered) { return row_mean(at::square(centered)); }

LossValues pearson(const Tensor& y_true, const Tensor& y_pred, const AxisOptions& options) {
  const Rows rows = rows_of("pearson_correlation", y_true, y_pred, options);
  const auto standard = [](const Tensor& x) {
    const Tensor centered = x - row_mean(x);
    return centered / row_variance(centered - row_mean(centered)).sqrt();
  };
  return {.values = (standard(rows.y_true) * standard(rows.y_pred)).mean(-1)};
}

LossValues concordance(const Tensor& y_true, const Tensor& y_pred, const AxisOptions& options) {
  const Rows rows = rows_of("concordance_correlation", y_true, y_pred, options);
  const Tensor true_mean = row_mean(rows.y_true), pred_mean = row_mean(rows.y_pred);
  const Tensor true_centered = rows.y_true - true_mean, pred_centered = rows.y_pred - pred_mean;
  // (y_true - mean of y_pred): so Keras has it; summed over the row it is the covariance.
  const Tensor covariance = (rows.y_true - pred_mean) * pred_centered;
  const Tensor norm = row_variance(true_centered - row_mean(true_centered)) +
                      row_variance(pred_centered - row_mean(pred_centered)) +
                      at::square(true_mean - pred_mean);
  return {.values = (2 * covariance / (norm + 1e-7)).mean(-1)};
}

// The list.

template <typename Options>
std::span<const Entry<Options>> entries();

template <>
std::span<const Entry<MetricOptions>> entries() {
  static constexpr Entry<MetricOptions> kEntries[] = {
      {"Accuracy", "accuracy", plain<accuracy>},
      {"CategoricalAccuracy", "categorical_accuracy", plain<categorical_accuracy>},
      {"SparseCategoricalAccuracy", "sparse_categorical_accuracy",
       plain<sparse_categorical_accuracy>},
      {"MeanSquaredError", "mean_squared_error", plain<losses::mean_squared_error>},
      {"RootMeanSquaredError", "root_mean_squared_error", squared_errors, /*root=*/true},
      {"MeanAbsoluteError", "mean_absolute_error", plain<losses::mean_absolute_error>},
      {"MeanAbsolutePercentageError", "mean_absolute_percentage_error",
       plain<losses::mean_absolute_percentage_error>},
      {"MeanSquaredLogarithmicError", "mean_squared_logarithmic_error",
       plain<losses::mean_squared_logarithmic_error>},
      {"LogCoshError", "logcosh", plain<losses::log_cosh>},
      {"KLDivergence", "kl_divergence", plain<losses::kl_divergence>},
      {"Poisson", "poisson", plain<losses::poisson>},
      {"Hinge", "hinge", plain<losses::hinge>},
      {"SquaredHinge", "squared_hinge", plain<losses::squared_hinge>},
      {"CategoricalHinge", "categorical_hinge", plain<losses::categorical_hinge>},
  };
  return kEntries;
}
template <>
std::span<const Entry<BinaryAccuracyOptions>> entries() {
  static constexpr Entry<BinaryAccuracyOptions> kEntries[] = {
      {"BinaryAccuracy", "binary_accuracy", binary_accuracy_values}};
  return kEntries;
}
template <>
std::span<const Entry<TopKOptions>> entries() {
  static constexpr Entry<TopKOptions> kEntries[] = {
      {"TopKCategoricalAccuracy", "top_k_categorical_accuracy", top_k}};
  return kEntries;
}
template <>
std::span<const Entry<SparseTopKOptions>> entries() {
  static constexpr Entry<SparseTopKOptions> kEntries[] = {
      {"SparseTopKCategoricalAccuracy", "sparse_top_k_categorical_accuracy", sparse_top_k}};
  return kEntries;
}
template <>
std::span<const Entry<BinaryCrossentropyOptions>> entries() {
  static constexpr Entry<BinaryCrossentropyOptions> kEntries[] = {
      {"BinaryCrossentropy", "binary_crossentropy", binary_crossentropy}};
  return kEntries;
}
template <>
std::span<const Entry<CategoricalCrossentropyOptions>> entries() {
  static constexpr Entry<CategoricalCrossentropyOptions> kEntries[] = {
      {"CategoricalCrossentropy", "categorical_crossentropy", categorical_crossentropy}};
  return kEntries;
}
template <>
std::span<const Entry<SparseCategoricalCrossentropyOptions>> entries() {
  static constexpr Entry<SparseCategoricalCrossentropyOptions> kEntries[] = {
      {"SparseCategoricalCrossentropy", "sparse_categorical_crossentropy", sparse_crossentropy}};
  return kEntries;
}
template <>
std::span<const Entry<CosineSimilarityOptions>> entries() {
  static constexpr Entry<CosineSimilarityOptions> kEntries[] = {
      {"CosineSimilarity", "cosine_similarity", cosine}};
  return kEntries;
}
template <>
std::span<const Entry<AxisOptions>> entries() {
  static constexpr Entry<AxisOptions> kEntries[] = {
      {"PearsonCorrelation", "pearson_correlation", pearson},
      {"ConcordanceCorrelation", "concordance_correlation", concordance}};
  return kEntries;
}

template <typename Options>
std::shared_ptr<MetricImpl> make_mean(std::string_view class_name, const Options& given) {
  for (const Entry<Options>& entry : entries<Options>()) {
    if (entry.class_name != class_name) continue;
    Options options = given;
    if (options.name.empty()) options.name = entry.name;
    return std::make_shared<MeanOf<Options>>(entry, std::move(options));
  }
  strata::detail::throw_error(ErrorCode::kInternal, str_cat("no metric class ", class_name));
}

template <typename Options>
void add(std::vector<Registered>& list) {
  for (const Entry<Options>& entry : entries<Options>()) {
    add_class<Options, make_mean<Options>>(list, entry.class_name);
  }
}

/// "accuracy": which one is seen by the shapes.
LossValues any_accuracy(const Tensor& y_true, const Tensor& y_pred) {
  switch (losses::label_kind(y_true.sizes(), y_pred.sizes())) {
    case losses::LabelKindOfShapes::kBinary:
      return {.values = binary_accuracy(y_true, y_pred)};
    case losses::LabelKindOfShapes::kSparse:
      return {.values = sparse_categorical_accuracy(y_true, y_pred)};
    case losses::LabelKindOfShapes::kCategorical:
      break;
  }
  return {.values = categorical_accuracy(y_true, y_pred)};
}

}  // namespace

void add_mean_metrics(std::vector<Registered>& list) {
  add<MetricOptions>(list);
  add<BinaryAccuracyOptions>(list);
  add<TopKOptions>(list);
  add<SparseTopKOptions>(list);
  add<BinaryCrossentropyOptions>(list);
  add<CategoricalCrossentropyOptions>(list);
  add<SparseCategoricalCrossentropyOptions>(list);
  add<CosineSimilarityOptions>(list);
  add<AxisOptions>(list);
}

std::shared_ptr<MetricImpl> make_any_accuracy() {
  return std::make_shared<MeanOfLoss>("accuracy", any_accuracy);
}

std::shared_ptr<MetricImpl> make_mean_of_loss(const losses::Loss& loss) {
  return std::make_shared<MeanOfLoss>(
      loss.name(), [loss](const Tensor& y_true, const Tensor& y_pred) {
        return LossValues{.values = loss.per_sample(y_true, y_pred)};
      });
}

MeanMetricWrapper::MeanMetricWrapper(losses::Loss::Function function, const std::string& name)
    : Metric(make_mean_of_loss(losses::Loss(std::move(function), name))) {}

#define STRATA_MAKE_METRIC(Options)                                                              \
  std::shared_ptr<MetricImpl> make_metric(std::string_view class_name, const Options& options) { \
    return make_mean(class_name, options);                                                       \
  }
STRATA_MAKE_METRIC(MetricOptions)
STRATA_MAKE_METRIC(BinaryAccuracyOptions)
STRATA_MAKE_METRIC(TopKOptions)
STRATA_MAKE_METRIC(SparseTopKOptions)
STRATA_MAKE_METRIC(BinaryCrossentropyOptions)
STRATA_MAKE_METRIC(CategoricalCrossentropyOptions)
STRATA_MAKE_METRIC(SparseCategoricalCrossentropyOptions)
STRATA_MAKE_METRIC(CosineSimilarityOptions)
STRATA_MAKE_METRIC(AxisOptions)
#undef STRATA_MAKE_METRIC

}  // namespace strata::metrics
