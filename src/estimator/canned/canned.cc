#include "strata/estimator/canned.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "estimator/canned/model_fns.h"
#include "strata/core/error.h"

namespace strata::estimator {
namespace {

template <typename Options>
Head classification_head(const Options& options) {
  STRATA_CHECK(options.n_classes >= 2, kInvalidArgument,
               "[estimator] n_classes must be >= 2: ", options.n_classes, ".");
  if (options.n_classes == 2) {
    return binary_class_head({.weight_column = options.weight_column,
                              .label_vocabulary = options.label_vocabulary,
                              .loss_reduction = options.loss_reduction});
  }
  return multi_class_head(options.n_classes, {.weight_column = options.weight_column,
                                              .label_vocabulary = options.label_vocabulary,
                                              .loss_reduction = options.loss_reduction});
}

template <typename Options>
Head head_of_regressor(const Options& options) {
  return regression_head({.label_dimension = options.label_dimension,
                          .weight_column = options.weight_column,
                          .loss_reduction = options.loss_reduction});
}

template <typename Options>
EstimatorOptions estimator_options(const Options& options) {
  EstimatorOptions all{.model_dir = options.model_dir, .config = options.config};
  if constexpr (requires { options.warm_start_from; }) {
    all.warm_start_from = options.warm_start_from;
  }
  return all;
}

double limited_rate(double most, size_t columns) {
  return std::min(most, 1 / std::sqrt(static_cast<double>(std::max<size_t>(columns, 1))));
}

void check_columns(const std::vector<FeatureColumn>& columns, const char* what) {
  STRATA_CHECK(!columns.empty(), kInvalidArgument, "[estimator] ", what,
               " must not be empty; expected one column or more");
}

template <typename Options>
ModelFn linear(Head head, const Options& options) {
  check_columns(options.feature_columns, "feature_columns");
  return detail::model_fn_of(
      std::move(head),
      detail::LinearPart{
          options.feature_columns, options.sparse_combiner,
          detail::optimizer_of(options.optimizer,
                               {.default_name = "Ftrl",
                                .rate = 0.2,
                                .rate_unset = limited_rate(0.2, options.feature_columns.size())})},
      std::nullopt);
}

void check_units(const std::vector<int64_t>& hidden_units) {
  for (const int64_t units : hidden_units) {
    STRATA_CHECK(units > 0, kInvalidArgument, "[estimator] hidden_units: got ", units,
                 "; expected 1 or more");
  }
}

template <typename Options>
ModelFn dnn(Head head, const Options& options) {
  check_columns(options.feature_columns, "feature_columns");
  check_units(options.hidden_units);
  return detail::model_fn_of(
      std::move(head), std::nullopt,
      detail::DnnPart{options.feature_columns, options.hidden_units, options.activation_fn,
                      options.dropout, options.batch_norm,
                      detail::optimizer_of(options.optimizer, {.default_name = "Adagrad",
                                                               .rate = 0.001,
                                                               .rate_unset = 0.001,
                                                               .rate_of_sgd = 0.01})});
}

template <typename Options>
ModelFn combined(Head head, const Options& options) {
  const auto& wide = options.linear_feature_columns;
  const auto& deep = options.dnn_feature_columns;
  STRATA_CHECK(!wide.empty() || !deep.empty(), kInvalidArgument,
               "[estimator] Either linear_feature_columns or dnn_feature_columns must be defined.");
  STRATA_CHECK(deep.empty() || !options.dnn_hidden_units.empty(), kInvalidArgument, "[estimator] ",
               "dnn_hidden_units must be defined when dnn_feature_columns is specified.");
  check_units(options.dnn_hidden_units);
  std::optional<detail::LinearPart> linear;
  if (!wide.empty()) {
    const double rate = limited_rate(0.005, wide.size());
    linear = {wide, options.linear_sparse_combiner,
              detail::optimizer_of(options.linear_optimizer,
                                   {.default_name = "Ftrl", .rate = rate, .rate_unset = rate})};
  }
  std::optional<detail::DnnPart> dnn;
  if (!deep.empty()) {
    dnn = {deep,
           options.dnn_hidden_units,
           options.dnn_activation_fn,
           options.dnn_dropout,
           options.batch_norm,
           detail::optimizer_of(options.dnn_optimizer,
                                {.default_name = "Adagrad", .rate = 0.001, .rate_unset = 0.001})};
  }
  return detail::model_fn_of(std::move(head), std::move(linear), std::move(dnn));
}

template <typename Options>
ModelFn baseline(Head head, const Options& options) {
  return detail::baseline_model_fn(
      std::move(head),
      detail::optimizer_of(options.optimizer,
                           {.default_name = "Ftrl", .rate = 0.3, .rate_unset = 0.3}));
}

}  // namespace

LinearClassifier::LinearClassifier(const LinearClassifierOptions& options)
    : Estimator(linear(classification_head(options), options), estimator_options(options)) {}
LinearRegressor::LinearRegressor(const LinearRegressorOptions& options)
    : Estimator(linear(head_of_regressor(options), options), estimator_options(options)) {}
LinearEstimator::LinearEstimator(const Head& head, const LinearEstimatorOptions& options)
    : Estimator(linear(head, options), estimator_options(options)) {}

DNNClassifier::DNNClassifier(const DNNClassifierOptions& options)
    : Estimator(dnn(classification_head(options), options), estimator_options(options)) {}
DNNRegressor::DNNRegressor(const DNNRegressorOptions& options)
    : Estimator(dnn(head_of_regressor(options), options), estimator_options(options)) {}
DNNEstimator::DNNEstimator(const Head& head, const DNNEstimatorOptions& options)
    : Estimator(dnn(head, options), estimator_options(options)) {}

DNNLinearCombinedClassifier::DNNLinearCombinedClassifier(
    const DNNLinearCombinedClassifierOptions& options)
    : Estimator(combined(classification_head(options), options), estimator_options(options)) {}
DNNLinearCombinedRegressor::DNNLinearCombinedRegressor(
    const DNNLinearCombinedRegressorOptions& options)
    : Estimator(combined(head_of_regressor(options), options), estimator_options(options)) {}
DNNLinearCombinedEstimator::DNNLinearCombinedEstimator(
    const Head& head, const DNNLinearCombinedEstimatorOptions& options)
    : Estimator(combined(head, options), estimator_options(options)) {}

BaselineClassifier::BaselineClassifier(const BaselineClassifierOptions& options)
    : Estimator(baseline(classification_head(options), options), estimator_options(options)) {}
BaselineRegressor::BaselineRegressor(const BaselineRegressorOptions& options)
    : Estimator(baseline(head_of_regressor(options), options), estimator_options(options)) {}
BaselineEstimator::BaselineEstimator(const Head& head, const BaselineEstimatorOptions& options)
    : Estimator(baseline(head, options), estimator_options(options)) {}

}  // namespace strata::estimator
