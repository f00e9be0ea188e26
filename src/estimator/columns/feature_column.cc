#include "strata/estimator/feature_column.h"

#include "data/hashes.h"
#include "estimator/columns/column_impl.h"
#include "strata/core/error.h"

namespace strata::feature_column {

const std::string& FeatureColumn::name() const { return impl_->name(); }
bool FeatureColumn::is_categorical() const { return impl_->categorical() != nullptr; }
bool FeatureColumn::is_dense() const { return impl_->dense() != nullptr; }
int64_t FeatureColumn::num_buckets() const {
  return detail::categorical(*this, "num_buckets").num_buckets();
}

uint64_t fingerprint64(std::string_view bytes) { return data::fingerprint64(bytes); }

namespace detail {

const CategoricalColumn& categorical(const FeatureColumn& column, const char* where) {
  const CategoricalColumn* found = column.impl()->categorical();
  STRATA_CHECK(found != nullptr, kInvalidArgument, "[feature_column] ", where, ": got the column '",
               column.name(), "', which gives numbers; expected a categorical column");
  return *found;
}

const DenseColumn& dense(const FeatureColumn& column, const char* where) {
  const DenseColumn* found = column.impl()->dense();
  STRATA_CHECK(found != nullptr, kInvalidArgument, "[feature_column] ", where,
               ": got the categorical column '", column.name(),
               "'; expected a dense one: wrap it with embedding_column or indicator_column");
  return *found;
}

const Feature& feature_of(const Features& features, const std::string& key) {
  const auto found = features.find(key);
  STRATA_CHECK(found != features.end(), kInvalidArgument, "[feature_column] Feature ", key,
               " is not in features dictionary.");
  const at::Tensor& values = found->second.values;
  STRATA_CHECK(values.defined() && values.dim() > (found->second.is_text ? 1 : 0), kInvalidArgument,
               "[feature_column] Feature (key: ", key,
               ") cannot have rank 0; expected [rows, ...]");
  return found->second;
}

namespace {

/// A feature of a column is described in one way in all columns that have it.
bool same(const data::TfFeature& a, const data::TfFeature& b) { return a == b; }
bool same(const data::FeatureSpec& a, const data::FeatureSpec& b) {
  if (a.index() != b.index()) return false;
  if (const auto* fixed = std::get_if<data::FixedLenFeature>(&a)) {
    const auto& other = std::get<data::FixedLenFeature>(b);
    return fixed->type == other.type && fixed->shape == other.shape &&
           same(fixed->default_value, other.default_value);
  }
  return std::get<data::VarLenFeature>(a).type == std::get<data::VarLenFeature>(b).type;
}

}  // namespace

void add_feature(ExampleFeatures& features, const std::string& key, data::FeatureSpec spec) {
  const auto [place, added] = features.emplace(key, spec);
  STRATA_CHECK(added || same(place->second, spec), kInvalidArgument,
               "[feature_column] make_parse_example_spec: feature_columns contain different specs "
               "for the feature '",
               key, "'; columns of one feature have one type, shape and default value");
}

}  // namespace detail
}  // namespace strata::feature_column
