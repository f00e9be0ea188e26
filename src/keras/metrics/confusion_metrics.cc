#include "strata/keras/confusion_metrics.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

#include <array>
#include <map>

#include "keras/metrics/confusion_counts.h"
#include "keras/metrics/registry.h"

namespace strata::metrics {

using at::Tensor;

Json to_config(const Thresholds& thresholds) {
  if (thresholds.values.empty()) return {};
  return thresholds.is_list ? keras::to_config(thresholds.values) : Json(thresholds.values[0]);
}

void from_config(const Json& json, Thresholds& thresholds) {
  if (json.is_null()) {
    thresholds = {};
  } else if (json.is_number()) {
    thresholds = json.as_double();
  } else {
    std::vector<double> values;
    keras::from_config(json, values);
    thresholds = std::move(values);
  }
}

template <typename Config>
void visit(Config& config, ThresholdsOptions& options) {
  visit_common(config, options);
  config("thresholds", options.thresholds);
}
template <typename Config>
void visit(Config& config, PrecisionOptions& options) {
  visit_common(config, options);
  config("thresholds", options.thresholds);
  config("top_k", options.top_k);
  config("class_id", options.class_id);
}

namespace {

constexpr Tensor ConfusionCounts::*const kTruePositives = &ConfusionCounts::true_positives;
constexpr Tensor ConfusionCounts::*const kFalsePositives = &ConfusionCounts::false_positives;
constexpr Tensor ConfusionCounts::*const kTrueNegatives = &ConfusionCounts::true_negatives;
constexpr Tensor ConfusionCounts::*const kFalseNegatives = &ConfusionCounts::false_negatives;

std::vector<double> checked(std::string_view class_name, const Thresholds& thresholds,
                            double standard) {
  for (const double each : thresholds.values) {
    STRATA_CHECK(each >= 0 && each <= 1, kInvalidArgument, "[metrics] ", class_name,
                 ": got threshold ", each, "; expected values in [0, 1]");
  }
  return thresholds.values.empty() ? std::vector<double>{standard} : thresholds.values;
}

Tensor one_or_all(const Tensor& values) { return values.numel() == 1 ? values[0] : values; }

/// Counts of one or more kinds, which `result` makes the metric of.
struct Kind {
  const char* name;
  Tensor ConfusionCounts::*counts;
};

/// TruePositives and so on.
class Count final : public OptionsMetric<ThresholdsOptions> {
 public:
  Count(std::string_view class_name, const ThresholdsOptions& options)
      : OptionsMetric(class_name, options),
        counter_(checked(class_name, options.thresholds, 0.5), {}) {
    static const std::map<std::string_view, Tensor ConfusionCounts::*> kinds = {
        {"TruePositives", kTruePositives},
        {"TrueNegatives", kTrueNegatives},
        {"FalsePositives", kFalsePositives},
        {"FalseNegatives", kFalseNegatives}};
    kind_ = kinds.at(class_name);
  }

 private:
  void do_build(const keras::Shape&, const keras::Shape&) override {
    accumulator_ = add_variable("accumulator", {counter_.num_thresholds()});
  }
  void do_update_state(const MetricInput& input) override {
    add(*accumulator_, counter_.count(name().c_str(), input).*kind_);
  }
  Tensor do_result() const override { return one_or_all(read(*accumulator_)); }

  ConfusionCounter counter_;
  Tensor ConfusionCounts::*kind_;
  std::optional<Variable> accumulator_;
};

/// Precision: how many of the predicted are true. Recall: how many of the true are predicted.
class Share final : public OptionsMetric<PrecisionOptions> {
 public:
  Share(std::string_view class_name, const PrecisionOptions& options)
      : OptionsMetric(class_name, options),
        counter_(checked(class_name, options.thresholds, options.top_k ? -1e10 : 0.5),
                 {.top_k = options.top_k, .class_id = options.class_id}),
        other_(class_name == "Precision" ? Kind{"false_positives", kFalsePositives}
                                         : Kind{"false_negatives", kFalseNegatives}) {}

 private:
  void do_build(const keras::Shape&, const keras::Shape&) override {
    true_positives_ = add_variable("true_positives", {counter_.num_thresholds()});
    others_ = add_variable(other_.name, {counter_.num_thresholds()});
  }
  void do_update_state(const MetricInput& input) override {
    const ConfusionCounts counts = counter_.count(name().c_str(), input);
    add(*true_positives_, counts.true_positives);
    add(*others_, counts.*other_.counts);
  }
  Tensor do_result() const override {
    const Tensor right = read(*true_positives_);
    return one_or_all(divide_no_nan(right, right + read(*others_)));
  }

  ConfusionCounter counter_;
  Kind other_;
  std::optional<Variable> true_positives_, others_;
};

// The four "at" metrics: the largest of one share where another is at least a value.

}  // namespace

using Ratio = Tensor (*)(const ConfusionCounts&);
static Tensor sensitivity(const ConfusionCounts& c) {
  return divide_no_nan(c.true_positives, c.true_positives + c.false_negatives);
}
static Tensor specificity(const ConfusionCounts& c) {
  return divide_no_nan(c.true_negatives, c.true_negatives + c.false_positives);
}
static Tensor precision(const ConfusionCounts& c) {
  return divide_no_nan(c.true_positives, c.true_positives + c.false_positives);
}

template <typename Options>
struct AtTraits;
template <>
struct AtTraits<SensitivityAtSpecificityOptions> {
  static constexpr auto kClass = "SensitivityAtSpecificity", kKey = "specificity";
  static constexpr auto kValue = &SensitivityAtSpecificityOptions::specificity;
  static constexpr Ratio kBest = sensitivity, kBound = specificity;
};
template <>
struct AtTraits<SpecificityAtSensitivityOptions> {
  static constexpr auto kClass = "SpecificityAtSensitivity", kKey = "sensitivity";
  static constexpr auto kValue = &SpecificityAtSensitivityOptions::sensitivity;
  static constexpr Ratio kBest = specificity, kBound = sensitivity;
};
template <>
struct AtTraits<PrecisionAtRecallOptions> {
  static constexpr auto kClass = "PrecisionAtRecall", kKey = "recall";
  static constexpr auto kValue = &PrecisionAtRecallOptions::recall;
  static constexpr Ratio kBest = precision, kBound = sensitivity;
};
template <>
struct AtTraits<RecallAtPrecisionOptions> {
  static constexpr auto kClass = "RecallAtPrecision", kKey = "precision";
  static constexpr auto kValue = &RecallAtPrecisionOptions::precision;
  static constexpr Ratio kBest = sensitivity, kBound = precision;
};

template <typename Config, typename Options>
requires requires { AtTraits<Options>::kKey; }
void visit(Config& config, Options& options) {
  visit_common(config, options);
  config("num_thresholds", options.num_thresholds);
  config("class_id", options.class_id);
  config(AtTraits<Options>::kKey, options.*AtTraits<Options>::kValue);
}

namespace {

template <typename Options>
const Options& checked_at(const Options& options) {
  using Traits = AtTraits<Options>;
  const double value = options.*Traits::kValue;
  STRATA_CHECK(value >= 0 && value <= 1, kInvalidArgument, "[metrics] ", Traits::kClass, ": got ",
               Traits::kKey, " ", value, "; expected a value in [0, 1]");
  STRATA_CHECK(options.num_thresholds > 0, kInvalidArgument, "[metrics] ", Traits::kClass,
               ": got num_thresholds ", options.num_thresholds, "; expected 1 or more");
  return options;
}

template <typename Options>
class At final : public OptionsMetric<Options> {
 public:
  At(std::string_view class_name, const Options& options)
      : OptionsMetric<Options>(class_name, checked_at(options)),
        counter_(even_thresholds(options.num_thresholds), {.class_id = options.class_id}) {}

 private:
  static constexpr std::array<Kind, 4> kKinds = {{{"true_positives", kTruePositives},
                                                  {"false_positives", kFalsePositives},
                                                  {"true_negatives", kTrueNegatives},
                                                  {"false_negatives", kFalseNegatives}}};

  void do_build(const keras::Shape&, const keras::Shape&) override {
    for (const Kind& kind : kKinds) {
      variables_.push_back(this->add_variable(kind.name, {counter_.num_thresholds()}));
    }
  }
  void do_update_state(const MetricInput& input) override {
    const ConfusionCounts counts = counter_.count(this->name().c_str(), input);
    for (size_t i = 0; i < kKinds.size(); ++i) this->add(variables_[i], counts.*kKinds[i].counts);
  }
  Tensor do_result() const override {
    using Traits = AtTraits<Options>;
    ConfusionCounts counts;
    for (size_t i = 0; i < kKinds.size(); ++i) counts.*kKinds[i].counts = this->read(variables_[i]);
    const Tensor feasible = Traits::kBound(counts) >= this->options().*Traits::kValue;
    return Traits::kBest(counts).masked_fill(feasible.logical_not(), 0).max();
  }

  ConfusionCounter counter_;
  std::vector<Variable> variables_;
};

template <typename Impl, typename Options>
std::shared_ptr<MetricImpl> make_one(std::string_view class_name, const Options& options) {
  return std::make_shared<Impl>(class_name, options);
}

template <typename Options>
void add_at(std::vector<Registered>& list) {
  add_class<Options, make_one<At<Options>, Options>>(list, AtTraits<Options>::kClass);
}

}  // namespace

void add_confusion_metrics(std::vector<Registered>& list) {
  for (const char* each : {"TruePositives", "TrueNegatives", "FalsePositives", "FalseNegatives"}) {
    add_class<ThresholdsOptions, make_one<Count, ThresholdsOptions>>(list, each);
  }
  for (const char* each : {"Precision", "Recall"}) {
    add_class<PrecisionOptions, make_one<Share, PrecisionOptions>>(list, each);
  }
  add_at<SensitivityAtSpecificityOptions>(list);
  add_at<SpecificityAtSensitivityOptions>(list);
  add_at<PrecisionAtRecallOptions>(list);
  add_at<RecallAtPrecisionOptions>(list);
}

#define STRATA_MAKE_METRIC(Impl, Options)                                                        \
  std::shared_ptr<MetricImpl> make_metric(std::string_view class_name, const Options& options) { \
    return std::make_shared<Impl>(class_name, options);                                          \
  }
STRATA_MAKE_METRIC(Count, ThresholdsOptions)
STRATA_MAKE_METRIC(Share, PrecisionOptions)
STRATA_MAKE_METRIC(At<SensitivityAtSpecificityOptions>, SensitivityAtSpecificityOptions)
STRATA_MAKE_METRIC(At<SpecificityAtSensitivityOptions>, SpecificityAtSensitivityOptions)
STRATA_MAKE_METRIC(At<PrecisionAtRecallOptions>, PrecisionAtRecallOptions)
STRATA_MAKE_METRIC(At<RecallAtPrecisionOptions>, RecallAtPrecisionOptions)
#undef STRATA_MAKE_METRIC

}  // namespace strata::metrics
