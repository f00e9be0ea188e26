#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/estimator/canned.h"

namespace strata::estimator::detail {

using MakeOptimizer = std::function<optimizers::AnyOptimizer()>;

/// An optimizer of a part of a model. `name` is the part of its slots' names in checkpoints.
struct PartOptimizer {
  std::string name;
  MakeOptimizer make;
};

/// Rates of optimizers that are given by name.
struct NamedRates {
  std::string default_name;
  double rate;                             ///< Of a name.
  double rate_unset;                       ///< Where none is given.
  std::optional<double> rate_of_sgd = {};  ///< If it has another one.
};

/// @throws Error kInvalidArgument: "Unsupported optimizer name: ...".
PartOptimizer optimizer_of(const OptimizerChoice& choice, const NamedRates& rates);

struct LinearPart {
  std::vector<FeatureColumn> columns;
  feature_column::Combiner combiner;
  PartOptimizer optimizer;
};

struct DnnPart {
  std::vector<FeatureColumn> columns;
  std::vector<int64_t> hidden_units;
  activations::Activation activation;
  double dropout;
  bool batch_norm;
  PartOptimizer optimizer;
};

/// A linear model, a network, or the sum of both.
ModelFn model_fn_of(Head head, std::optional<LinearPart> linear, std::optional<DnnPart> dnn);
ModelFn baseline_model_fn(Head head, PartOptimizer optimizer);

}  // namespace strata::estimator::detail
