#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "strata/core/export.h"
#include "strata/core/one_of.h"
#include "strata/keras/initializers.h"

/// Columns of a table as inputs of models, with TensorFlow's names, ids and defaults. They are used
/// by the layers in feature_layers.h and by the canned estimators. docs/feature_columns.md has what
/// is unlike TensorFlow.
///
///     const FeatureColumn age = numeric_column("age");
///     const FeatureColumn city = categorical_column_with_hash_bucket("city", 1000);
///     DenseFeatures inputs({age, embedding_column(city, 8)});
///
/// Source: tf.feature_column.
namespace strata::feature_column {

namespace detail {
class ColumnImpl;
}

/// A column: a handle of a value that does not change.
class STRATA_API FeatureColumn {
 public:
  explicit FeatureColumn(std::shared_ptr<const detail::ColumnImpl> impl) : impl_(std::move(impl)) {}

  /// TensorFlow's: "age", "age_bucketized", "a_X_b", "city_embedding". Weights have it in their
  /// names.
  const std::string& name() const;
  /// Whether it gives ids: those with "categorical" in their names, and bucketized and weighted
  /// ones.
  bool is_categorical() const;
  /// Whether it gives numbers: numeric, bucketized, indicator and embedding columns.
  bool is_dense() const;
  /// Of a categorical column: ids are below it. @throws Error kInvalidArgument: another column.
  int64_t num_buckets() const;

  const std::shared_ptr<const detail::ColumnImpl>& impl() const { return impl_; }
  friend bool operator==(const FeatureColumn& a, const FeatureColumn& b) {
    return a.impl_ == b.impl_;
  }

 private:
  std::shared_ptr<const detail::ColumnImpl> impl_;
};

struct NumericColumnOptions {
  std::vector<int64_t> shape = {1};  ///< Of a row.
  /// For Examples that lack the feature: as many values as `shape` has, or one for all. Unset:
  /// required.
  std::optional<std::vector<double>> default_value = {};
  at::ScalarType dtype = at::kFloat;  ///< Of the feature in Examples: kFloat or kLong.
  /// Gets the feature as it is, `[rows, *shape]`; what it gives is cast to float32.
  std::function<at::Tensor(const at::Tensor&)> normalizer_fn = {};
};

/// Numbers as they are, float32. @throws Error kInvalidArgument: a shape below 1.
STRATA_API FeatureColumn numeric_column(std::string key, NumericColumnOptions options = {});

/// The number of `boundaries` that are not above the value, of each element of a numeric column:
/// one-hot as a dense column, an id as a categorical one (element i's from i * (boundaries + 1)
/// on). NaN is in the last bucket.
/// @throws Error kInvalidArgument: another column; boundaries that do not rise.
STRATA_API FeatureColumn bucketized_column(const FeatureColumn& source_column,
                                           std::vector<double> boundaries);

/// Integers as ids. Others than 0 <= id < num_buckets become `default_value`; without it they stay,
/// weights and embeddings refuse them (kOutOfRange), and an indicator has zeros. -1 is missing.
STRATA_API FeatureColumn categorical_column_with_identity(
    std::string key, int64_t num_buckets, std::optional<int64_t> default_value = {});

/// What a value beside the vocabulary becomes: `default_value` (unset: -1, which adds nothing); or,
/// with `num_oov_buckets`, the vocabulary's size plus the value's Fingerprint64 modulo that number.
/// Not both.
struct VocabularyOptions {
  std::optional<int64_t> default_value = {};
  int64_t num_oov_buckets = 0;
};
/// @throws Error kInvalidArgument: an empty vocabulary, a value twice, options that do not match.
STRATA_API FeatureColumn categorical_column_with_vocabulary_list(
    std::string key, std::vector<std::string> vocabulary, const VocabularyOptions& options = {});
STRATA_API FeatureColumn categorical_column_with_vocabulary_list(
    std::string key, std::vector<int64_t> vocabulary, const VocabularyOptions& options = {});

struct VocabularyFileOptions {
  std::optional<int64_t> vocabulary_size = {};  ///< The first lines; unset: all.
  std::optional<int64_t> default_value = {};
  int64_t num_oov_buckets = 0;
  bool integers = false;  ///< Lines and features are integers, not texts.
};
/// A value a line, which ends with `\n` or `\r\n`. Reads it in this call, on any file system.
/// @throws Error as above; kNotFound; kInvalidArgument: fewer lines than `vocabulary_size`, an
///   empty line among them.
STRATA_API FeatureColumn categorical_column_with_vocabulary_file(
    std::string key, const std::string& vocabulary_file, const VocabularyFileOptions& options = {});

struct HashBucketOptions {
  bool integers = false;  ///< The feature is integers, which are hashed as decimal texts.
};
/// Fingerprint64 of the value modulo the size. Different values may have one id.
/// @throws Error kUnimplemented, with the first batch: strata was built without FarmHash.
STRATA_API FeatureColumn categorical_column_with_hash_bucket(std::string key,
                                                             int64_t hash_bucket_size,
                                                             const HashBucketOptions& options = {});

/// A feature by its name, or a categorical column.
using CrossedKey = std::variant<std::string, FeatureColumn>;
struct CrossedColumnOptions {
  std::optional<uint64_t> hash_key = {};  ///< Unset: TensorFlow's, 0xDECAFCAFFE.
};
/// All combinations of the keys' values in a row, hashed. A crossed column among the keys counts as
/// its keys. Sparse inputs (categorical columns, and features that are sparse) are taken before
/// dense ones, as TensorFlow does, so a feature that is sparse in one input and dense in another
/// has different ids.
/// @throws Error kInvalidArgument: fewer than two keys; a column that is not categorical, or of
///   hash buckets.
STRATA_API FeatureColumn crossed_column(std::vector<CrossedKey> keys, int64_t hash_bucket_size,
                                        const CrossedColumnOptions& options = {});

/// Ids with weights: the feature `weight_feature_key` has a number for each entry of the column's.
STRATA_API FeatureColumn weighted_categorical_column(const FeatureColumn& categorical_column,
                                                     std::string weight_feature_key);

/// How often a row has each id, or the sum of its weights: `[rows, num_buckets]`.
STRATA_API FeatureColumn indicator_column(const FeatureColumn& categorical_column);

/// How the rows of a table that a row's ids choose become one: "mean" divides the weighted sum by
/// the sum of weights, "sqrtn" by the root of the sum of their squares. Both leave out weights that
/// are not above 0.
struct CombinerWords {
  enum Word { kMean, kSqrtn, kSum };
  static constexpr const char* kOption = "combiner";
  static constexpr const char* kWords[] = {"mean", "sqrtn", "sum"};
};
using Combiner = OneOf<CombinerWords>;

struct EmbeddingColumnOptions {
  Combiner combiner = "mean";
  /// Unset: truncated normal, with standard deviation 1 / sqrt(dimension).
  std::optional<initializers::Initializer> initializer = {};
  std::optional<double> max_norm =
      {};  ///< Rows that are longer are cut to it before they are combined.
  bool trainable = true;
};
/// Rows of a table `[num_buckets, dimension]`, whose gradient is sparse. A row without ids has
/// zeros.
STRATA_API FeatureColumn embedding_column(const FeatureColumn& categorical_column,
                                          int64_t dimension,
                                          const EmbeddingColumnOptions& options = {});

/// A column for each of the given ones, with one table for all.
/// @throws Error kInvalidArgument: numbers of buckets that differ; weighted ones and others
///   together.
STRATA_API std::vector<FeatureColumn> shared_embeddings(
    const std::vector<FeatureColumn>& categorical_columns, int64_t dimension,
    const EmbeddingColumnOptions& options = {}, std::string shared_embedding_collection_name = {});

/// FarmHash's Fingerprint64, which is the same on all machines.
/// @throws Error kUnimplemented: strata was built without FarmHash.
STRATA_API uint64_t fingerprint64(std::string_view bytes);

}  // namespace strata::feature_column
