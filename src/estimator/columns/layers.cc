#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "estimator/columns/column_impl.h"
#include "estimator/columns/lookup.h"
#include "strata/core/error.h"
#include "strata/estimator/feature_layers.h"

namespace strata::feature_column {
namespace {

using detail::Table;

/// By name, as text. @throws Error kInvalidArgument: none, or a name twice.
std::map<std::string, FeatureColumn> sorted(const std::vector<FeatureColumn>& columns) {
  STRATA_CHECK(!columns.empty(), kInvalidArgument,
               "[feature_column] feature_columns must not be empty.");
  std::map<std::string, FeatureColumn> by_name;
  for (const FeatureColumn& column : columns) {
    STRATA_CHECK(by_name.emplace(column.name(), column).second, kInvalidArgument,
                 "[feature_column] Duplicate feature column name found for columns: '",
                 column.name(), "'; columns that are used together have different names");
  }
  return by_name;
}

Variable variable_of(const Table& table, const VariableSource& variables,
                     const std::string& scope) {
  return variables(
      scope + "/" + table.name, [&table] { return table.initializer(table.shape, at::kFloat); },
      table.trainable);
}

/// The weights of a linear model.
Variable zeros(const std::string& name, std::vector<int64_t> shape,
               const VariableSource& variables) {
  return variables(
      name, [&shape] { return at::zeros(shape, at::kFloat); }, true);
}

at::Tensor values_of(const FeatureColumn& column, const Features& features,
                     const VariableSource& variables, const std::string& scope) {
  const detail::DenseColumn& dense = *column.impl()->dense();
  const auto table = dense.table();
  return dense.values(features,
                      table ? variable_of(*table, variables, scope).value() : at::Tensor());
}

/// For layers that make all variables before they are called.
void make_table(const FeatureColumn& column, const VariableSource& variables,
                const std::string& scope) {
  if (const auto table = column.impl()->dense()->table()) {
    (void)variable_of(*table, variables, scope);
  }
}

struct LinearWeights {
  const LinearModelOptions& options;
  const VariableSource& variables;
  const std::string& scope;

  Variable of(const FeatureColumn& column) const {
    const int64_t rows =
        column.is_categorical() ? column.num_buckets() : column.impl()->dense()->width();
    return zeros(scope + "/" + column.name() + "/weights", {rows, options.units}, variables);
  }
  Variable bias() const { return zeros(scope + "/bias_weights", {options.units}, variables); }
};

void check(const LinearModelOptions& options) {
  options.sparse_combiner.check("[feature_column] linear_model");
  STRATA_CHECK(options.units > 0, kInvalidArgument, "[feature_column] linear_model: got units ",
               options.units, "; expected 1 or more");
}

/// A source that makes and finds variables of `own`; in a call it finds them alone.
VariableSource found_in(const OwnVariables& own) {
  return [&own](const std::string& name, const std::function<at::Tensor()>& initial,
                bool trainable) {
    return const_cast<OwnVariables&>(own)(name, initial, trainable);  // all are made before calls
  };
}

}  // namespace

at::Tensor input_layer(const Features& features, const std::vector<FeatureColumn>& columns,
                       const VariableSource& variables, const std::string& scope) {
  std::vector<at::Tensor> parts;
  for (const auto& [name, column] : sorted(columns)) {
    (void)detail::dense(column, "input_layer");
    parts.push_back(values_of(column, features, variables, scope));
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts, 1);
}

at::Tensor linear_model(const Features& features, const std::vector<FeatureColumn>& columns,
                        const LinearModelOptions& options, const VariableSource& variables,
                        const std::string& scope) {
  check(options);
  const LinearWeights weights{options, variables, scope};
  at::Tensor sum;
  for (const auto& [name, column] : sorted(columns)) {
    const at::Tensor weight = weights.of(column).value();
    const at::Tensor part =
        column.is_categorical()
            ? detail::look_up(weight, column.impl()->categorical()->entries(features),
                              {.column = name, .combiner = options.sparse_combiner})
            : at::matmul(values_of(column, features, variables, scope), weight);
    sum = sum.defined() ? sum + part : part;
  }
  return sum + weights.bias().value();
}

Variable OwnVariables::operator()(const std::string& name,
                                  const std::function<at::Tensor()>& initial, bool trainable) {
  const auto found = variables_.find(name);
  if (found != variables_.end()) return found->second;
  return variables_.emplace(name, Variable(initial(), {.name = name, .trainable = trainable}))
      .first->second;
}

std::vector<Variable> OwnVariables::all() const {
  std::vector<Variable> all;
  for (const auto& [name, variable] : variables_) all.push_back(variable);
  return all;
}

std::vector<Variable> OwnVariables::trainable() const {
  std::vector<Variable> trainable;
  for (const auto& [name, variable] : variables_) {
    if (variable.trainable()) trainable.push_back(variable);
  }
  return trainable;
}

DenseFeatures::DenseFeatures(std::vector<FeatureColumn> columns, std::string name)
    : columns_(std::move(columns)), name_(std::move(name)) {
  for (const auto& [key, column] : sorted(columns_)) {
    (void)detail::dense(column, "DenseFeatures");
    make_table(column, found_in(variables_), name_);
  }
}

at::Tensor DenseFeatures::operator()(const Features& features) const {
  return input_layer(features, columns_, found_in(variables_), name_);
}

int64_t DenseFeatures::width() const {
  int64_t width = 0;
  for (const FeatureColumn& column : columns_) width += column.impl()->dense()->width();
  return width;
}

LinearModel::LinearModel(std::vector<FeatureColumn> columns, LinearModelOptions options,
                         std::string name)
    : columns_(std::move(columns)), options_(std::move(options)), name_(std::move(name)) {
  check(options_);
  const VariableSource variables = found_in(variables_);
  const LinearWeights weights{options_, variables, name_};
  for (const auto& [key, column] : sorted(columns_)) {
    (void)weights.of(column);
    if (!column.is_categorical()) make_table(column, variables, name_);
  }
  (void)weights.bias();
}

at::Tensor LinearModel::operator()(const Features& features) const {
  return linear_model(features, columns_, options_, found_in(variables_), name_);
}

CategoricalIds categorical_ids(const FeatureColumn& column, const Features& features) {
  const detail::Entries entries = detail::categorical(column, "categorical_ids").entries(features);
  const at::Tensor present = entries.ids != detail::kAbsent;
  return {.ids = at::where(present, entries.ids, at::full_like(entries.ids, -1)),
          .present = present,
          .weights = entries.weights};
}

}  // namespace strata::feature_column
