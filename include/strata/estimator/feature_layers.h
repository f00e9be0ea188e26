#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/estimator/feature_column.h"
#include "strata/estimator/features.h"
#include "strata/runtime/variable.h"

namespace strata::feature_column {

using estimator::Feature;
using estimator::Features;

/// Finds a variable, or makes one of the initial value: where layers of columns take their
/// variables from. In a model_fn: ModelContext::variable.
using VariableSource = std::function<Variable(
    const std::string& name, const std::function<at::Tensor()>& initial, bool trainable)>;

/// The values of dense columns, side by side in the order of the columns' names: `[rows, sum of
/// widths]`. Variables are `<scope>/<column>/embedding_weights`, or `<scope>/<table>` for shared
/// ones.
/// @throws Error  kInvalidArgument: no columns, categorical ones, a name twice, a feature that is
///   missing. Source: tf.compat.v1.feature_column.input_layer.
STRATA_API at::Tensor input_layer(const Features& features,
                                  const std::vector<FeatureColumn>& columns,
                                  const VariableSource& variables, const std::string& scope);

struct LinearModelOptions {
  int64_t units = 1;
  Combiner sparse_combiner = "sum";
};

/// The sum over all columns, of any kind, of values times weights, and a bias: `[rows, units]`.
/// Weights are zeros at first, with the names `<scope>/<column>/weights` and
/// `<scope>/bias_weights`; those of categorical columns (also bucketized ones) have sparse
/// gradients.
/// @throws as input_layer. Source: tf.compat.v1.feature_column.linear_model.
STRATA_API at::Tensor linear_model(const Features& features,
                                   const std::vector<FeatureColumn>& columns,
                                   const LinearModelOptions& options,
                                   const VariableSource& variables, const std::string& scope);

/// Variables by name, made when first asked for.
class STRATA_API OwnVariables {
 public:
  Variable operator()(const std::string& name, const std::function<at::Tensor()>& initial,
                      bool trainable);
  std::vector<Variable> all() const;
  std::vector<Variable> trainable() const;

 private:
  std::map<std::string, Variable> variables_;
};

/// `input_layer` with variables of its own, for custom loops.
/// Threads: made by one, in a strategy's scope; called by every replica.
/// Source: tf.keras.layers.DenseFeatures.
class STRATA_API DenseFeatures {
 public:
  explicit DenseFeatures(std::vector<FeatureColumn> columns, std::string name = "dense_features");
  at::Tensor operator()(const Features& features) const;
  std::vector<Variable> variables() const { return variables_.all(); }
  std::vector<Variable> trainable_variables() const { return variables_.trainable(); }
  /// Numbers of a row.
  int64_t width() const;

 private:
  std::vector<FeatureColumn> columns_;
  std::string name_;
  OwnVariables variables_;
};

/// `linear_model` with variables of its own, for custom loops. Threads: as DenseFeatures.
/// Source: tf.keras.experimental.LinearModel over feature columns.
class STRATA_API LinearModel {
 public:
  explicit LinearModel(std::vector<FeatureColumn> columns, LinearModelOptions options = {},
                       std::string name = "linear_model");
  at::Tensor operator()(const Features& features) const;
  std::vector<Variable> variables() const { return variables_.all(); }
  std::vector<Variable> trainable_variables() const { return variables_.trainable(); }

 private:
  std::vector<FeatureColumn> columns_;
  LinearModelOptions options_;
  std::string name_;
  OwnVariables variables_;
};

/// The ids that a categorical column has in a batch: `[rows, most]` int64, and weights, or
/// undefined for 1 each. Below 0: an entry that adds nothing. `present` is false where a row has no
/// entry at all.
struct CategoricalIds {
  at::Tensor ids;
  at::Tensor present;
  at::Tensor weights;
};
STRATA_API CategoricalIds categorical_ids(const FeatureColumn& column, const Features& features);

}  // namespace strata::feature_column
