#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/json.h"
#include "strata/data/tf_example.h"
#include "strata/estimator/feature_column.h"
#include "strata/estimator/features.h"

namespace strata::feature_column::detail {

using estimator::Feature;
using estimator::Features;

/// The id where a row has no entry. Other negative ids are entries that have no weight of their
/// own; crossed columns hash them.
constexpr int64_t kAbsent = std::numeric_limits<int64_t>::min();

/// What a categorical column has of a batch.
struct Entries {
  at::Tensor ids;           ///< int64 `[rows, most]`
  at::Tensor weights = {};  ///< float32 `[rows, most]`; undefined: 1 each.
  bool may_exceed = false;  ///< Whether ids may be num_buckets or more.
};

class CategoricalColumn {
 public:
  virtual ~CategoricalColumn() = default;
  virtual int64_t num_buckets() const = 0;
  virtual Entries entries(const Features& features) const = 0;
  virtual bool is_weighted() const { return false; }
  /// Whether ids are hashes of values alone.
  virtual bool is_hashed() const { return false; }
};

/// A variable that a column has.
struct Table {
  std::string name;
  std::vector<int64_t> shape;
  initializers::Initializer initializer;
  bool trainable = true;
};

class DenseColumn {
 public:
  virtual ~DenseColumn() = default;
  /// Numbers of a row.
  virtual int64_t width() const = 0;
  virtual std::optional<Table> table() const { return std::nullopt; }
  /// float32 `[rows, width]`. @param table  The value of the column's variable, if it has one.
  virtual at::Tensor values(const Features& features, const at::Tensor& table) const = 0;
};

/// Features of Examples by name.
using ExampleFeatures = std::map<std::string, data::FeatureSpec>;

class ColumnImpl : public std::enable_shared_from_this<ColumnImpl> {
 public:
  explicit ColumnImpl(std::string name) : name_(std::move(name)) {}
  virtual ~ColumnImpl() = default;
  ColumnImpl(const ColumnImpl&) = delete;
  ColumnImpl& operator=(const ColumnImpl&) = delete;

  const std::string& name() const { return name_; }
  virtual const CategoricalColumn* categorical() const { return nullptr; }
  virtual const DenseColumn* dense() const { return nullptr; }
  /// Adds the features that it is made of, as Examples have them.
  virtual void add_features(ExampleFeatures& features) const = 0;
  /// For saved models: column_from_json makes it again. @throws Error kUnimplemented: a column that
  /// is computed in the graph, or has a function of the program's.
  virtual Json describe() const;

 private:
  const std::string name_;
};

/// @throws Error kInvalidArgument: a column that is not of the kind; `where` is the function that
///   was called.
const CategoricalColumn& categorical(const FeatureColumn& column, const char* where);
const DenseColumn& dense(const FeatureColumn& column, const char* where);

/// @throws Error kInvalidArgument: no such feature, or a scalar.
const Feature& feature_of(const Features& features, const std::string& key);

/// Adds one; the same twice is fine. @throws Error kInvalidArgument: it has another description.
void add_feature(ExampleFeatures& features, const std::string& key, data::FeatureSpec spec);

}  // namespace strata::feature_column::detail
