#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <utility>

#include "estimator/columns/column_impl.h"
#include "strata/core/error.h"

namespace strata::feature_column {
namespace detail {
namespace {

int64_t elements_of(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return elements;
}

template <typename T>
std::vector<T> default_values(const std::vector<double>& given) {
  std::vector<T> values;
  for (const double value : given) values.push_back(static_cast<T>(value));
  return values;
}

class NumericColumn final : public ColumnImpl, public DenseColumn {
 public:
  NumericColumn(std::string key, NumericColumnOptions options)
      : ColumnImpl(std::move(key)), options_(std::move(options)) {}

  const DenseColumn* dense() const override { return this; }
  int64_t width() const override { return elements_of(options_.shape); }
  const NumericColumnOptions& options() const { return options_; }

  at::Tensor values(const Features& features, const at::Tensor& /*table*/) const override {
    const Feature& feature = feature_of(features, name());
    STRATA_CHECK(!feature.is_text, kInvalidArgument,
                 "[feature_column] numeric_column: the feature '", name(),
                 "' is text; expected numbers");
    at::Tensor x = feature.values;
    if (x.dim() == 1) x = x.unsqueeze(-1);
    if (options_.normalizer_fn) x = options_.normalizer_fn(x);
    const int64_t rows = x.size(0);
    STRATA_CHECK(x.numel() == rows * width(), kInvalidArgument,
                 "[feature_column] numeric_column: ", "the feature '", name(), "' has the shape ",
                 x.sizes(), "; expected ", width(), " numbers a row, as the column's shape has");
    return x.to(at::kFloat).reshape({rows, width()});
  }

  void add_features(ExampleFeatures& features) const override {
    data::FixedLenFeature feature{
        options_.dtype == at::kLong ? data::FeatureType::kInt64 : data::FeatureType::kFloat,
        options_.shape};
    if (options_.default_value) {
      feature.default_value =
          options_.dtype == at::kLong
              ? data::TfFeature::int64s(default_values<int64_t>(*options_.default_value))
              : data::TfFeature::floats(default_values<float>(*options_.default_value));
    }
    add_feature(features, name(), feature);
  }

 private:
  const NumericColumnOptions options_;
};

class BucketizedColumn final : public ColumnImpl, public DenseColumn, public CategoricalColumn {
 public:
  BucketizedColumn(std::shared_ptr<const NumericColumn> source,
                   const std::vector<double>& boundaries)
      : ColumnImpl(source->name() + "_bucketized"),
        source_(std::move(source)),
        boundaries_(at::tensor(boundaries, at::kFloat)) {}

  const DenseColumn* dense() const override { return this; }
  const CategoricalColumn* categorical() const override { return this; }

  int64_t width() const override { return num_buckets(); }
  int64_t num_buckets() const override { return buckets() * source_->dense()->width(); }

  at::Tensor values(const Features& features, const at::Tensor& /*table*/) const override {
    const at::Tensor ids = bucket_of(features).unsqueeze(-1);
    return (ids == at::arange(buckets(), ids.options())).to(at::kFloat).flatten(1);
  }
  Entries entries(const Features& features) const override {
    const at::Tensor ids = bucket_of(features);
    return {.ids = ids + at::arange(ids.size(1), ids.options()) * buckets()};
  }
  void add_features(ExampleFeatures& features) const override { source_->add_features(features); }
  Json describe() const override {
    STRATA_CHECK(
        !source_->options().normalizer_fn, kUnimplemented, "[feature_column] '", name(),
        "' has a normalizer_fn, which is a function of the program's: it cannot be part of ",
        "a crossed column in a saved model; normalize the input, or move the boundaries");
    Json shape = Json::array();
    for (const int64_t size : source_->options().shape) shape.push_back(size);
    Json boundaries = Json::array();
    for (int64_t i = 0; i < boundaries_.numel(); ++i) {
      boundaries.push_back(boundaries_[i].item<double>());
    }
    Json json = Json::object();
    json.set("type", "bucketized").set("key", source_->name()).set("shape", std::move(shape));
    json.set("boundaries", std::move(boundaries));
    return json;
  }

 private:
  int64_t buckets() const { return boundaries_.numel() + 1; }
  /// Of each element; a NaN is below none.
  at::Tensor bucket_of(const Features& features) const {
    const at::Tensor x = source_->dense()->values(features, {});
    return (x.unsqueeze(-1) < boundaries_.to(x.device())).logical_not().sum(-1);
  }

  const std::shared_ptr<const NumericColumn> source_;
  const at::Tensor boundaries_;
};

}  // namespace
}  // namespace detail

FeatureColumn numeric_column(std::string key, NumericColumnOptions options) {
  for (const int64_t size : options.shape) {
    STRATA_CHECK(size > 0, kInvalidArgument, "[feature_column] numeric_column: got a shape with ",
                 size, " for '", key, "'; expected sizes of 1 or more");
  }
  STRATA_CHECK(options.dtype == at::kFloat || options.dtype == at::kLong, kInvalidArgument,
               "[feature_column] numeric_column: got dtype ", options.dtype, " for '", key,
               "'; expected kFloat or kLong, which Examples have");
  if (options.default_value) {
    const auto given = static_cast<int64_t>(options.default_value->size());
    const int64_t elements = detail::elements_of(options.shape);
    STRATA_CHECK(given == 1 || given == elements, kInvalidArgument, "[feature_column] ",
                 "numeric_column: got ", given, " default values for '", key, "'; expected ",
                 elements, ", or one for all");
  }
  return FeatureColumn(std::make_shared<detail::NumericColumn>(std::move(key), std::move(options)));
}

FeatureColumn bucketized_column(const FeatureColumn& source_column,
                                std::vector<double> boundaries) {
  const auto source = std::dynamic_pointer_cast<const detail::NumericColumn>(source_column.impl());
  STRATA_CHECK(source != nullptr, kInvalidArgument,
               "[feature_column] bucketized_column: source_column must be a ",
               "column generated with numeric_column(). Given: ", source_column.name());
  STRATA_CHECK(!boundaries.empty(), kInvalidArgument,
               "[feature_column] bucketized_column: boundaries must not be empty.");
  STRATA_CHECK(
      std::ranges::adjacent_find(boundaries, std::ranges::greater_equal()) == boundaries.end(),
      kInvalidArgument, "[feature_column] bucketized_column: boundaries must be a sorted list.");
  return FeatureColumn(std::make_shared<detail::BucketizedColumn>(source, boundaries));
}

}  // namespace strata::feature_column
