#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/join.h"
#include "estimator/columns/column_impl.h"
#include "estimator/columns/exported_ids.h"
#include "estimator/columns/host_entries.h"
#include "estimator/columns/lookup.h"
#include "strata/core/error.h"

namespace strata::feature_column {
namespace detail {
namespace {

class WeightedColumn final : public ColumnImpl, public CategoricalColumn {
 public:
  WeightedColumn(const FeatureColumn& column, std::string weight_key)
      : ColumnImpl(column.name() + "_weighted_by_" + weight_key),
        column_(column),
        weight_key_(std::move(weight_key)) {}

  const CategoricalColumn* categorical() const override { return this; }
  int64_t num_buckets() const override { return of_ids().num_buckets(); }
  bool is_weighted() const override { return true; }

  Entries entries(const Features& features) const override {
    Entries entries = of_ids().entries(features);
    const Feature& feature = feature_of(features, weight_key_);
    STRATA_CHECK(!feature.is_text, kInvalidArgument, "[feature_column] ",
                 "weighted_categorical_column: the weights '", weight_key_, "' are text; expected ",
                 "numbers");
    const at::Tensor& weights = feature.values;
    const int64_t most = most_entries(weights, false);
    STRATA_CHECK(weights.size(0) == entries.ids.size(0) && most == entries.ids.size(1),
                 kInvalidArgument, "[feature_column] weighted_categorical_column: '", weight_key_,
                 "' has ", weights.size(0), " rows of ", most, " weights; expected ",
                 entries.ids.size(0), " of ", entries.ids.size(1), ", as '", column_.name(),
                 "' has entries");
    entries.weights = weights.to(at::kFloat).reshape(entries.ids.sizes());
    return entries;
  }
  void add_features(ExampleFeatures& features) const override {
    column_.impl()->add_features(features);
    add_feature(features, weight_key_, data::VarLenFeature{data::FeatureType::kFloat});
  }

 private:
  const CategoricalColumn& of_ids() const { return *column_.impl()->categorical(); }

  const FeatureColumn column_;
  const std::string weight_key_;
};

class IndicatorColumn final : public ColumnImpl, public DenseColumn {
 public:
  explicit IndicatorColumn(const FeatureColumn& column)
      : ColumnImpl(column.name() + "_indicator"), column_(column) {}

  const DenseColumn* dense() const override { return this; }
  int64_t width() const override { return column_.num_buckets(); }

  at::Tensor values(const Features& features, const at::Tensor& /*table*/) const override {
    const Entries entries = column_.impl()->categorical()->entries(features);
    const at::Tensor& ids = entries.ids;
    const at::Tensor valid = (ids >= 0).logical_and(ids < width());
    at::Tensor weights = valid.to(at::kFloat);
    if (entries.weights.defined()) weights = weights * entries.weights;
    if (ExportedIds::current() != nullptr) {
      // Saved graphs have no scatter_add.
      const at::Tensor is_class = ids.unsqueeze(-1) == at::arange(width(), ids.options());
      return (is_class.to(at::kFloat) * weights.unsqueeze(-1)).sum(1);
    }
    const at::Tensor index = at::where(valid, ids, at::zeros({}, ids.options()));
    return at::zeros({ids.size(0), width()}, weights.options()).scatter_add(1, index, weights);
  }
  void add_features(ExampleFeatures& features) const override {
    column_.impl()->add_features(features);
  }

 private:
  const FeatureColumn column_;
};

class EmbeddingColumn final : public ColumnImpl, public DenseColumn {
 public:
  EmbeddingColumn(std::string name, const FeatureColumn& column, Table table,
                  EmbeddingColumnOptions options)
      : ColumnImpl(std::move(name)),
        column_(column),
        table_(std::move(table)),
        options_(std::move(options)) {}

  const DenseColumn* dense() const override { return this; }
  int64_t width() const override { return table_.shape[1]; }
  std::optional<Table> table() const override { return table_; }

  at::Tensor values(const Features& features, const at::Tensor& table) const override {
    return look_up(
        table, column_.impl()->categorical()->entries(features),
        {.column = column_.name(), .combiner = options_.combiner, .max_norm = options_.max_norm});
  }
  void add_features(ExampleFeatures& features) const override {
    column_.impl()->add_features(features);
  }

 private:
  const FeatureColumn column_;
  const Table table_;
  const EmbeddingColumnOptions options_;
};

Table table_of(std::string name, int64_t buckets, int64_t dimension,
               const EmbeddingColumnOptions& options, const char* where) {
  STRATA_CHECK(dimension > 0, kInvalidArgument, "[feature_column] ", where, ": Invalid dimension ",
               dimension, ".");
  options.combiner.check(str_cat("[feature_column] ", where));
  STRATA_CHECK(!options.max_norm || *options.max_norm > 0, kInvalidArgument, "[feature_column] ",
               where, ": got max_norm ", options.max_norm.value_or(0), "; expected more than 0");
  return {.name = std::move(name),
          .shape = {buckets, dimension},
          .initializer = options.initializer.value_or(initializers::TruncatedNormal(
              {.stddev = 1 / std::sqrt(static_cast<double>(dimension))})),
          .trainable = options.trainable};
}

}  // namespace
}  // namespace detail

FeatureColumn weighted_categorical_column(const FeatureColumn& categorical_column,
                                          std::string weight_feature_key) {
  (void)detail::categorical(categorical_column, "weighted_categorical_column");
  return FeatureColumn(
      std::make_shared<detail::WeightedColumn>(categorical_column, std::move(weight_feature_key)));
}

FeatureColumn indicator_column(const FeatureColumn& categorical_column) {
  (void)detail::categorical(categorical_column, "indicator_column");
  return FeatureColumn(std::make_shared<detail::IndicatorColumn>(categorical_column));
}

FeatureColumn embedding_column(const FeatureColumn& categorical_column, int64_t dimension,
                               const EmbeddingColumnOptions& options) {
  const int64_t buckets = detail::categorical(categorical_column, "embedding_column").num_buckets();
  const std::string name = categorical_column.name() + "_embedding";
  return FeatureColumn(std::make_shared<detail::EmbeddingColumn>(
      name, categorical_column,
      detail::table_of(name + "/embedding_weights", buckets, dimension, options,
                       "embedding_column"),
      options));
}

std::vector<FeatureColumn> shared_embeddings(const std::vector<FeatureColumn>& categorical_columns,
                                             int64_t dimension,
                                             const EmbeddingColumnOptions& options,
                                             std::string shared_embedding_collection_name) {
  constexpr const char* kWhere = "shared_embeddings";
  STRATA_CHECK(!categorical_columns.empty(), kInvalidArgument,
               "[feature_column] shared_embeddings: got no columns; expected one or more");
  const detail::CategoricalColumn& first = detail::categorical(categorical_columns.front(), kWhere);
  std::vector<std::string> names;
  for (const FeatureColumn& column : categorical_columns) {
    const detail::CategoricalColumn& each = detail::categorical(column, kWhere);
    STRATA_CHECK(
        each.num_buckets() == first.num_buckets() && each.is_weighted() == first.is_weighted(),
        kInvalidArgument, "[feature_column] shared_embeddings: got '",
        categorical_columns.front().name(), "' and '", column.name(),
        "', which differ in num_buckets, or in having weights; expected columns alike");
    names.push_back(column.name());
  }
  if (shared_embedding_collection_name.empty()) {
    std::ranges::sort(names);
    shared_embedding_collection_name = join(names, {}, "_") + "_shared_embedding";
  }
  const detail::Table table = detail::table_of(std::move(shared_embedding_collection_name),
                                               first.num_buckets(), dimension, options, kWhere);
  std::vector<FeatureColumn> shared;
  for (const FeatureColumn& column : categorical_columns) {
    shared.emplace_back(std::make_shared<detail::EmbeddingColumn>(
        column.name() + "_shared_embedding", column, table, options));
  }
  return shared;
}

}  // namespace strata::feature_column
