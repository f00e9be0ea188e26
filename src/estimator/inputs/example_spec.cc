#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "estimator/columns/column_impl.h"
#include "estimator/inputs/example_features.h"
#include "strata/core/error.h"
#include "strata/estimator/table_rows.h"

namespace strata::estimator {
namespace {

using feature_column::detail::ExampleFeatures;

ExampleFeatures features_of_columns(const std::vector<feature_column::FeatureColumn>& columns) {
  ExampleFeatures features;
  for (const feature_column::FeatureColumn& column : columns) column.impl()->add_features(features);
  return features;
}

void add_unused(ExampleFeatures& features, const std::string& key, const char* what,
                data::FeatureSpec spec) {
  STRATA_CHECK(features.emplace(key, std::move(spec)).second, kInvalidArgument, "[estimator] ",
               what, " should not be used as feature. Given: '", key, "'");
}

ExampleSpec with_label(const std::vector<feature_column::FeatureColumn>& columns,
                       const std::string& label_key, data::FixedLenFeature label,
                       const std::string& weight_column) {
  ExampleFeatures features = features_of_columns(columns);
  add_unused(features, label_key, "label", std::move(label));
  if (!weight_column.empty()) {
    add_unused(features, weight_column, "weight_column",
               data::FixedLenFeature{data::FeatureType::kFloat, {1}});
  }
  return {features.begin(), features.end()};
}

}  // namespace

ExampleSpec make_parse_example_spec(const std::vector<feature_column::FeatureColumn>& columns) {
  const ExampleFeatures features = features_of_columns(columns);
  return {features.begin(), features.end()};
}

ExampleSpec classifier_parse_example_spec(const std::vector<feature_column::FeatureColumn>& columns,
                                          const std::string& label_key,
                                          const ClassifierSpecOptions& options) {
  return with_label(columns, label_key, {options.label_type, {1}, options.label_default},
                    options.weight_column);
}

ExampleSpec regressor_parse_example_spec(const std::vector<feature_column::FeatureColumn>& columns,
                                         const std::string& label_key,
                                         const RegressorSpecOptions& options) {
  return with_label(columns, label_key,
                    {data::FeatureType::kFloat, {options.label_dimension}, options.label_default},
                    options.weight_column);
}

namespace detail {

ExampleField field_of(const std::string& name, const data::FeatureSpec& spec) {
  if (const auto* fixed = std::get_if<data::FixedLenFeature>(&spec)) {
    return {fixed->type, fixed->shape, /*is_sparse=*/false};
  }
  const auto* any = std::get_if<data::VarLenFeature>(&spec);
  STRATA_CHECK(any != nullptr, kInvalidArgument, "[estimator] the feature '", name,
               "' is a FixedLenSequenceFeature; expected FixedLenFeature or VarLenFeature, which ",
               "columns have");
  return {any->type, {-1}, /*is_sparse=*/true};
}

at::Scalar padding_of(data::FeatureType type) {
  return type == data::FeatureType::kInt64 ? at::Scalar(-1) : at::Scalar(0);
}

}  // namespace detail

namespace {

/// Entries of all rows behind each other as a matrix, padded.
at::Tensor padded(const at::Tensor& entries, const at::Tensor& row_splits, const at::Scalar& pad) {
  const int64_t rows = row_splits.numel() - 1;
  int64_t most = 0;
  const auto split = [&](int64_t row) { return row_splits[row].item<int64_t>(); };
  for (int64_t row = 0; row < rows; ++row) most = std::max(most, split(row + 1) - split(row));
  std::vector<int64_t> sizes = entries.sizes().vec();
  sizes[0] = most;
  sizes.insert(sizes.begin(), rows);
  at::Tensor matrix = at::full(sizes, pad, entries.options());
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t length = split(row + 1) - split(row);
    matrix.select(0, row).narrow(0, 0, length).copy_(entries.narrow(0, split(row), length));
  }
  return matrix;
}

}  // namespace

Features features_of(const data::ParsedExample& batch, const ExampleSpec& spec) {
  Features features;
  for (const auto& [name, given] : spec) {
    const detail::ExampleField field = detail::field_of(name, given);
    const data::ParsedFeature& parsed = batch[name];
    const bool is_text = field.type == data::FeatureType::kBytes;
    at::Tensor values = is_text ? text_feature(parsed.strings()).values : parsed.values;
    if (field.is_sparse) {
      values = padded(values, parsed.row_splits,
                      is_text ? at::Scalar(0) : detail::padding_of(field.type));
    } else if (is_text) {
      std::vector<int64_t> sizes = field.shape;
      int64_t each = 1;
      for (const int64_t size : field.shape) each *= size;
      sizes.insert(sizes.begin(), each == 0 ? 0 : values.size(0) / each);
      sizes.push_back(values.size(1));
      values = values.reshape(sizes);
    }
    features.emplace(name,
                     Feature{.values = values, .is_text = is_text, .is_sparse = field.is_sparse});
  }
  return features;
}

}  // namespace strata::estimator
