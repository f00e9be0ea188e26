#include "strata/keras/score_metrics.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/square.h>
#include <ATen/ops/where.h>

#include <array>

#include "keras/metrics/registry.h"
#include "optim/shapes.h"
#include "strata/core/log.h"

namespace strata::metrics {

using at::Tensor;

template <typename Config>
void visit(Config& config, F1ScoreOptions& options) {
  visit_common(config, options);
  config("average", options.average);
  config("threshold", options.threshold);
}
template <typename Config>
void visit(Config& config, FBetaScoreOptions& options) {
  visit_common(config, options);
  config("average", options.average);
  config("beta", options.beta);
  config("threshold", options.threshold);
}
template <typename Config>
void visit(Config& config, R2ScoreOptions& options) {
  visit_common(config, options);
  config("class_aggregation", options.class_aggregation);
  config("num_regressors", options.num_regressors);
}

namespace {

/// The number of columns, from shapes [batch, n].
int64_t width_of(std::string_view metric, const keras::Shape& y_pred) {
  STRATA_CHECK(y_pred.size() == 2 && y_pred[1] > 0, kInvalidArgument, "[metrics] ", metric,
               ": got y_pred of shape ", keras::to_string(y_pred),
               "; expected [batch, n], where n is known");
  return y_pred[1];
}

/// Both in float64, [batch, n]; the weights [batch, 1] or [batch, n].
struct ScoreColumns {
  Tensor y_true, y_pred, weight;
};

ScoreColumns columns_of(const char* metric, const MetricInput& input) {
  ScoreColumns columns{input.y_true.to(at::kDouble), input.y_pred.to(at::kDouble), {}};
  strata::detail::match_shapes("metrics", metric, columns.y_true, columns.y_pred);
  STRATA_CHECK(columns.y_pred.dim() == 2, kInvalidArgument, "[metrics] ", metric,
               ": got y_pred of shape ", columns.y_pred.sizes(), "; expected [batch, n]");
  if (input.sample_weight.defined()) {
    columns.weight = input.sample_weight.to(at::kDouble);
    Tensor values = columns.y_pred;
    strata::detail::match_weight("[metrics] update_state", values, columns.weight);
  }
  return columns;
}

template <typename Options>
const Options& checked(std::string_view class_name, const Options& options) {
  if (options.average) options.average->check(str_cat("[metrics] ", class_name));
  STRATA_CHECK(!options.threshold || (*options.threshold > 0 && *options.threshold <= 1),
               kInvalidArgument, "[metrics] ", class_name, ": got threshold ", *options.threshold,
               "; expected a value in (0, 1]");
  if constexpr (requires { options.beta; }) {
    STRATA_CHECK(options.beta > 0, kInvalidArgument, "[metrics] ", class_name, ": got beta ",
                 options.beta, "; expected a positive one");
  }
  return options;
}

template <typename Options>
class FScore final : public OptionsMetric<Options> {
 public:
  FScore(std::string_view class_name, const Options& options)
      : OptionsMetric<Options>(class_name, checked(class_name, options)) {}

 private:
  static constexpr std::array<const char*, 4> kState = {"true_positives", "false_positives",
                                                        "false_negatives", "intermediate_weights"};

  bool micro() const { return this->options().average == "micro"; }

  void do_build(const keras::Shape&, const keras::Shape& y_pred) override {
    const int64_t classes = width_of(this->class_name(), y_pred);
    for (const char* each : kState) {
      variables_.push_back(micro() ? this->add_variable(each)
                                   : this->add_variable(each, {classes}));
    }
  }

  void do_update_state(const MetricInput& input) override {
    const ScoreColumns columns = columns_of(this->name().c_str(), input);
    const Tensor& y_true = columns.y_true;
    // In float32, so that a prediction lies on the side of a threshold that Keras sees.
    const Tensor scores = columns.y_pred.to(at::kFloat);
    const Tensor chosen = this->options().threshold
                              ? scores > *this->options().threshold
                              : (scores >= at::amax(scores, -1, /*keepdim=*/true))
                                    .logical_and(at::abs(scores) > 1e-9);
    const Tensor y_pred = chosen.to(at::kDouble);
    const Tensor terms[] = {y_pred * y_true, y_pred * (1 - y_true), (1 - y_pred) * y_true, y_true};
    for (size_t i = 0; i < kState.size(); ++i) {
      const Tensor term = columns.weight.defined() ? terms[i] * columns.weight : terms[i];
      this->add(variables_[i], micro() ? term.sum() : term.sum(0));
    }
  }

  Tensor do_result() const override {
    double beta = 1;
    if constexpr (requires { this->options().beta; }) beta = this->options().beta;
    const Tensor right = this->read(variables_[0]);
    const Tensor precision = right / (right + this->read(variables_[1]) + kEpsilon);
    const Tensor recall = right / (right + this->read(variables_[2]) + kEpsilon);
    const Tensor score =
        precision * recall / (beta * beta * precision + recall + kEpsilon) * (1 + beta * beta);
    if (!this->options().average) return score;
    if (*this->options().average != "weighted") return score.mean();
    const Tensor weights = this->read(variables_[3]);
    return (score * weights).sum() / (weights.sum() + kEpsilon);
  }

  std::vector<Variable> variables_;
};

class R2 final : public OptionsMetric<R2ScoreOptions> {
 public:
  R2(std::string_view class_name, const R2ScoreOptions& options)
      : OptionsMetric(class_name, options) {
    if (options.class_aggregation) options.class_aggregation->check("[metrics] R2Score");
    STRATA_CHECK(options.num_regressors >= 0, kInvalidArgument,
                 "[metrics] R2Score: got num_regressors ", options.num_regressors,
                 "; expected 0 or more");
  }

 private:
  void do_build(const keras::Shape&, const keras::Shape& y_pred) override {
    const int64_t outputs = width_of(class_name(), y_pred);
    num_samples_ = add_variable("num_samples");
    squared_sum_ = add_variable("squared_sum", {outputs});
    sum_ = add_variable("sum", {outputs});
    residual_ = add_variable("residual", {outputs});
    count_ = add_variable("count", {outputs});
  }

  void do_update_state(const MetricInput& input) override {
    const ScoreColumns columns = columns_of(name().c_str(), input);
    const Tensor weight =
        columns.weight.defined()
            ? columns.weight.expand_as(columns.y_true)
            : at::scalar_tensor(1.0, columns.y_true.options()).expand_as(columns.y_true);
    const Tensor weighted = columns.y_true * weight;
    add(*sum_, weighted.sum(0));
    add(*squared_sum_, (columns.y_true * weighted).sum(0));
    add(*residual_, (at::square(columns.y_true - columns.y_pred) * weight).sum(0));
    add(*count_, weight.sum(0));
    add(*num_samples_, at::scalar_tensor(static_cast<double>(columns.y_true.numel()), at::kDouble));
  }

  Tensor do_result() const override {
    const Tensor sum = read(*sum_);
    const Tensor total = read(*squared_sum_) - sum * sum / read(*count_);
    Tensor raw = 1 - read(*residual_) / total;
    raw = raw.masked_fill(at::isinf(raw), 0);
    Tensor score = raw;
    if (options().class_aggregation == "uniform_average") {
      score = raw.mean();
    } else if (options().class_aggregation) {
      score = (total * raw).sum() / total.sum();
    }
    const auto regressors = static_cast<double>(options().num_regressors);
    if (regressors == 0) return score;
    const double samples = read(*num_samples_).item<double>();
    if (regressors >= samples - 1) {
      STRATA_LOG(kWarning) << "[metrics] R2Score: got " << regressors << " regressors for "
                           << samples << " values; the score is not adjusted";
      return score;
    }
    return 1 - (1 - score) * (samples - 1) / (samples - regressors - 1);
  }

  std::optional<Variable> num_samples_, squared_sum_, sum_, residual_, count_;
};

template <typename Impl, typename Options>
std::shared_ptr<MetricImpl> make_score(std::string_view class_name, const Options& options) {
  return std::make_shared<Impl>(class_name, options);
}

}  // namespace

void add_score_metrics(std::vector<Registered>& list) {
  add_class<F1ScoreOptions, make_score<FScore<F1ScoreOptions>, F1ScoreOptions>>(list, "F1Score");
  add_class<FBetaScoreOptions, make_score<FScore<FBetaScoreOptions>, FBetaScoreOptions>>(
      list, "FBetaScore");
  add_class<R2ScoreOptions, make_score<R2, R2ScoreOptions>>(list, "R2Score");
}

std::shared_ptr<MetricImpl> make_metric(std::string_view class_name,
                                        const F1ScoreOptions& options) {
  return std::make_shared<FScore<F1ScoreOptions>>(class_name, options);
}
std::shared_ptr<MetricImpl> make_metric(std::string_view class_name,
                                        const FBetaScoreOptions& options) {
  FBetaScoreOptions named = options;
  if (named.name.empty()) named.name = "fbeta_score";
  return std::make_shared<FScore<FBetaScoreOptions>>(class_name, named);
}
std::shared_ptr<MetricImpl> make_metric(std::string_view class_name,
                                        const R2ScoreOptions& options) {
  return std::make_shared<R2>(class_name, options);
}

}  // namespace strata::metrics
