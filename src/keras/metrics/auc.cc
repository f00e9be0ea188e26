// Areas under curves.

#include <ATen/TensorOperators.h>
#include <ATen/ops/log.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <array>

#include "core/join.h"
#include "core/letter_case.h"
#include "keras/metrics/confusion_counts.h"
#include "keras/metrics/registry.h"
#include "strata/keras/confusion_metrics.h"

namespace strata::metrics {

using at::Tensor;

namespace {

/// Keras writes a tensor here, and takes a list too.
template <typename Config>
void visit_weights(Config& config, std::vector<double>& weights) {
  constexpr auto kKey = "label_weights";
  Json json;
  if constexpr (std::is_same_v<Config, keras::ConfigWriter>) {
    if (!weights.empty()) {
      Json tensor = Json::object();
      tensor.set("value", keras::to_config(weights));
      tensor.set("dtype", "float32");
      json = Json::object();
      json.set("class_name", "__tensor__");
      json.set("config", std::move(tensor));
    }
    config(kKey, json);
  } else {
    config(kKey, json);
    if (json.is_object()) json = Json(json.at("config").at("value"));
    if (!json.is_null()) keras::from_config(json, weights);
  }
}

}  // namespace

template <typename Config>
void visit(Config& config, AUCOptions& options) {
  visit_common(config, options);
  config("num_thresholds", options.num_thresholds);
  config("curve", options.curve);
  config("summation_method", options.summation_method);
  config("multi_label", options.multi_label);
  config("num_labels", options.num_labels);
  visit_weights(config, options.label_weights);
  config("from_logits", options.from_logits);
  if (!std::is_same_v<Config, keras::ConfigWriter> || !options.thresholds.empty()) {
    config("thresholds", options.thresholds);
  }
}

namespace {

/// Keras takes these words in lower, upper and title case, too.
template <typename Set>
OneOf<Set> in_any_case(const OneOf<Set>& value) {
  for (const char* known : Set::kWords) {
    const std::string lower = strata::detail::lower_case(known);
    const std::string upper = strata::detail::upper_case(known);
    std::string title = lower;
    title[0] = upper[0];
    if (value.word() == lower || value.word() == upper || value.word() == title) return known;
  }
  value.check("[metrics] AUC");
  return value;
}

AUCOptions resolved(AUCOptions options) {
  options.curve = in_any_case(options.curve);
  options.summation_method = in_any_case(options.summation_method);
  if (!options.thresholds.empty()) {
    std::sort(options.thresholds.begin(), options.thresholds.end());
    options.num_thresholds = static_cast<int64_t>(options.thresholds.size()) + 2;
  }
  STRATA_CHECK(options.num_thresholds > 1, kInvalidArgument, "[metrics] AUC: got num_thresholds ",
               options.num_thresholds, "; expected 2 or more");
  STRATA_CHECK(options.multi_label || !options.num_labels, kInvalidArgument,
               "[metrics] AUC: got num_labels without multi_label");
  return options;
}

std::vector<double> thresholds_of(const AUCOptions& options) {
  std::vector<double> thresholds = even_thresholds(options.num_thresholds);
  std::copy(options.thresholds.begin(), options.thresholds.end(), thresholds.begin() + 1);
  thresholds.front() = -1e-7;
  thresholds.back() = 1 + 1e-7;
  return thresholds;
}

/// All but the last, and all but the first.
Tensor head(const Tensor& x) { return x.narrow(0, 0, x.size(0) - 1); }
Tensor tail(const Tensor& x) { return x.narrow(0, 1, x.size(0) - 1); }
Tensor not_negative(const Tensor& x) { return x.clamp_min(0); }

/// Davis and Goadrich's interpolation of precision and recall: per interval.
Tensor interpolated_pr(const ConfusionCounts& c) {
  const Tensor& right = c.true_positives;
  const Tensor predicted = right + c.false_positives;
  const Tensor more_right = head(right) - tail(right);
  const Tensor slope = divide_no_nan(more_right, not_negative(head(predicted) - tail(predicted)));
  const Tensor intercept = tail(right) - slope * tail(predicted);
  const Tensor ratio = at::where((head(predicted) > 0).logical_and(tail(predicted) > 0),
                                 divide_no_nan(head(predicted), not_negative(tail(predicted))),
                                 at::ones_like(tail(predicted)));
  return divide_no_nan(slope * (more_right + intercept * at::log(ratio)),
                       not_negative(tail(right) + tail(c.false_negatives)));
}

struct Curve {
  Tensor x, y;  ///< at each threshold
};

Curve curve_of(const std::string& kind, const ConfusionCounts& c) {
  const Tensor& right = c.true_positives;
  const Tensor recall = divide_no_nan(right, right + c.false_negatives);
  if (kind == "ROC") {
    return {divide_no_nan(c.false_positives, c.false_positives + c.true_negatives), recall};
  }
  if (kind == "PR") return {recall, divide_no_nan(right, right + c.false_positives)};
  const Tensor odds =
      divide_no_nan(right + c.false_negatives, c.true_negatives + c.false_positives);
  const Tensor none = right == 0;
  const Tensor recall_gain = 1 - odds * divide_no_nan(c.false_negatives, right);
  const Tensor precision_gain = 1 - odds * divide_no_nan(c.false_positives, right);
  return {not_negative(recall_gain.masked_fill(none, 0)), precision_gain.masked_fill(none, 1)};
}

Tensor areas_of(const AUCOptions& options, const ConfusionCounts& counts) {
  if (options.curve == "PR" && options.summation_method == "interpolation") {
    return interpolated_pr(counts);
  }
  const Curve curve = curve_of(options.curve, counts);
  const Tensor left = head(curve.y), right = tail(curve.y);
  const Tensor heights = options.summation_method == "interpolation" ? (left + right) / 2
                         : options.summation_method == "minoring"    ? at::minimum(left, right)
                                                                     : at::maximum(left, right);
  return (head(curve.x) - tail(curve.x)) * heights;
}

class AreaUnderCurve final : public OptionsMetric<AUCOptions> {
 public:
  AreaUnderCurve(std::string_view class_name, const AUCOptions& given)
      : OptionsMetric(class_name, resolved(given)),
        counter_(thresholds_of(options()),
                 {.multi_label = options().multi_label,
                  .label_weights =
                      options().multi_label ? std::vector<double>() : options().label_weights}) {}

 private:
  struct State {
    const char* name;
    Tensor ConfusionCounts::*counts;
  };
  static constexpr std::array<State, 4> kState = {
      {{"true_positives", &ConfusionCounts::true_positives},
       {"false_positives", &ConfusionCounts::false_positives},
       {"true_negatives", &ConfusionCounts::true_negatives},
       {"false_negatives", &ConfusionCounts::false_negatives}}};

  void do_build(const keras::Shape&, const keras::Shape& y_pred) override {
    std::vector<int64_t> shape = {counter_.num_thresholds()};
    if (options().multi_label) {
      const bool known = y_pred.size() == 2 && y_pred[1] > 0;
      STRATA_CHECK(options().num_labels || known, kInvalidArgument,
                   "[metrics] AUC: got y_pred of shape ", keras::to_string(y_pred),
                   " with multi_label; expected [batch, labels], or num_labels");
      shape.push_back(options().num_labels.value_or(known ? y_pred[1] : 0));
    }
    for (const State& each : kState) variables_.push_back(add_variable(each.name, shape));
  }

  void do_update_state(const MetricInput& input) override {
    const Tensor y_pred = options().from_logits ? at::sigmoid(input.y_pred) : input.y_pred;
    const ConfusionCounts counts =
        counter_.count(name().c_str(), {.y_true = input.y_true,
                                        .y_pred = y_pred,
                                        .sample_weight = input.sample_weight,
                                        .mask = input.mask});
    for (size_t i = 0; i < kState.size(); ++i) add(variables_[i], counts.*kState[i].counts);
  }

  Tensor do_result() const override {
    ConfusionCounts counts;
    for (size_t i = 0; i < kState.size(); ++i) counts.*kState[i].counts = read(variables_[i]);
    const Tensor areas = areas_of(options(), counts);
    if (!options().multi_label) return areas.sum();
    const Tensor by_label = areas.sum(0);
    if (options().label_weights.empty()) return by_label.mean();
    const Tensor weights = at::tensor(options().label_weights, at::kDouble);
    return divide_no_nan((by_label * weights).sum(), weights.sum());
  }

  ConfusionCounter counter_;
  std::vector<Variable> variables_;
};

std::shared_ptr<MetricImpl> make_area(std::string_view class_name, const AUCOptions& options) {
  return std::make_shared<AreaUnderCurve>(class_name, options);
}

}  // namespace

void add_auc(std::vector<Registered>& list) { add_class<AUCOptions, make_area>(list, "AUC"); }

std::shared_ptr<MetricImpl> make_metric(std::string_view class_name, const AUCOptions& options) {
  return make_area(class_name, options);
}

}  // namespace strata::metrics
