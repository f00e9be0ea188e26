#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/where.h>

#include <charconv>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/join.h"
#include "estimator/columns/column_impl.h"
#include "estimator/columns/column_json.h"
#include "estimator/columns/exported_ids.h"
#include "estimator/columns/host_entries.h"
#include "estimator/vocabulary_file.h"
#include "strata/core/error.h"

namespace strata::feature_column {
namespace detail {
namespace {

/// @throws Error kInvalidArgument: text where integers are expected, or the other way round.
const Feature& feature_of_kind(const Features& features, const std::string& key, bool integers,
                               const char* where) {
  const Feature& feature = feature_of(features, key);
  const bool fits =
      integers ? !feature.is_text && at::isIntegralType(feature.values.scalar_type(), false)
               : feature.is_text;
  STRATA_CHECK(fits, kInvalidArgument, "[feature_column] ", where, ": the feature '", key, "' is ",
               feature.is_text ? "text" : toString(feature.values.scalar_type()), "; expected ",
               integers ? "integers" : "text");
  return feature;
}

uint64_t fingerprint_of(int64_t value) { return fingerprint64(std::to_string(value)); }

class IdentityColumn final : public ColumnImpl, public CategoricalColumn {
 public:
  IdentityColumn(std::string key, int64_t num_buckets, std::optional<int64_t> default_value)
      : ColumnImpl(std::move(key)), num_buckets_(num_buckets), default_value_(default_value) {}

  const CategoricalColumn* categorical() const override { return this; }
  int64_t num_buckets() const override { return num_buckets_; }

  Entries entries(const Features& features) const override {
    return entries_or_exported(*this, [&] { return entries_of(features); });
  }
  void add_features(ExampleFeatures& features) const override {
    add_feature(features, name(), data::VarLenFeature{data::FeatureType::kInt64});
  }
  Json describe() const override {
    Json json = Json::object();
    json.set("type", "identity").set("key", name()).set("num_buckets", num_buckets_);
    json.set("default_value", default_value_ ? Json(*default_value_) : Json());
    return json;
  }

 private:
  Entries entries_of(const Features& features) const {
    const Feature& feature =
        feature_of_kind(features, name(), true, "categorical_column_with_identity");
    const at::Tensor& values = feature.values;
    at::Tensor ids = values.to(at::kLong).reshape({values.size(0), most_entries(values, false)});
    const at::Tensor missing = ids == -1;
    if (default_value_) {
      const at::Tensor outside = (ids < 0).logical_or(ids >= num_buckets_);
      ids = at::where(outside, at::full_like(ids, *default_value_), ids);
    }
    return {.ids = at::where(missing, at::full_like(ids, kAbsent), ids),
            .may_exceed = !default_value_.has_value()};
  }

  const int64_t num_buckets_;
  const std::optional<int64_t> default_value_;
};

/// Texts, or integers, that are looked up on the host.
class HostColumn : public ColumnImpl, public CategoricalColumn {
 public:
  HostColumn(std::string key, bool integers) : ColumnImpl(std::move(key)), integers_(integers) {}

  const CategoricalColumn* categorical() const final { return this; }

  Entries entries(const Features& features) const final {
    return entries_or_exported(*this, [&] { return entries_of(features); });
  }
  void add_features(ExampleFeatures& features) const final {
    add_feature(
        features, name(),
        data::VarLenFeature{integers_ ? data::FeatureType::kInt64 : data::FeatureType::kBytes});
  }

 protected:
  bool integers() const { return integers_; }
  /// The function of tf.feature_column that made it.
  virtual const char* function() const = 0;
  virtual int64_t id_of(std::string_view text) const = 0;
  virtual int64_t id_of(int64_t integer) const = 0;

 private:
  Entries entries_of(const Features& features) const {
    const Feature& feature = feature_of_kind(features, name(), integers_, function());
    const auto self = std::static_pointer_cast<const HostColumn>(shared_from_this());
    return {.ids = ids_on_host("strata::column_ids", {feature.values},
                               most_entries(feature.values, feature.is_text),
                               [self](const std::vector<at::Tensor>& inputs, at::Tensor& ids) {
                                 self->look_up(HostEntries(inputs.at(0), !self->integers_), ids);
                               })};
  }

  void look_up(const HostEntries& entries, at::Tensor& ids) const {
    auto* to = ids.mutable_data_ptr<int64_t>();
    for (int64_t row = 0; row < entries.rows(); ++row) {
      for (int64_t i = 0; i < entries.most(); ++i, ++to) {
        if (integers_) {
          const int64_t value = entries.integer(row, i);
          if (value != -1) *to = id_of(value);
        } else {
          const std::string_view text = entries.text(row, i);
          if (!text.empty()) *to = id_of(text);
        }
      }
    }
  }

  const bool integers_;
};

class HashColumn final : public HostColumn {
 public:
  HashColumn(std::string key, int64_t buckets, bool integers)
      : HostColumn(std::move(key), integers), buckets_(buckets) {}
  int64_t num_buckets() const override { return buckets_; }
  bool is_hashed() const override { return true; }
  Json describe() const override {
    Json json = Json::object();
    json.set("type", "hash_bucket").set("key", name()).set("hash_bucket_size", buckets_);
    json.set("integers", integers());
    return json;
  }

 private:
  const char* function() const override { return "categorical_column_with_hash_bucket"; }
  int64_t id_of(std::string_view text) const override { return bucket(fingerprint64(text)); }
  int64_t id_of(int64_t integer) const override { return bucket(fingerprint_of(integer)); }
  int64_t bucket(uint64_t fingerprint) const {
    return static_cast<int64_t>(fingerprint % static_cast<uint64_t>(buckets_));
  }

  const int64_t buckets_;
};

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

template <typename T>
struct IndexOf {
  using Map = std::unordered_map<int64_t, int64_t>;
};
template <>
struct IndexOf<std::string> {
  using Map = std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>>;
};

template <typename T>
class VocabularyColumn final : public HostColumn {
 public:
  VocabularyColumn(std::string key, const std::vector<T>& vocabulary, int64_t default_value,
                   int64_t oov_buckets, const char* function)
      : HostColumn(std::move(key), std::is_same_v<T, int64_t>),
        default_value_(default_value),
        oov_buckets_(oov_buckets),
        function_(function) {
    // Of two equal lines of a file the first counts, as in TensorFlow's tables.
    for (const T& value : vocabulary) index_.emplace(value, size_++);
  }
  int64_t num_buckets() const override { return size_ + oov_buckets_; }
  Json describe() const override {
    // Places of values that came before have the first value.
    std::vector<T> values(static_cast<size_t>(size_));
    for (const auto& [value, id] : index_) values[static_cast<size_t>(id)] = value;
    std::vector<bool> is_known(values.size());
    for (const auto& [value, id] : index_) is_known[static_cast<size_t>(id)] = true;
    Json list = Json::array();
    for (size_t i = 0; i < values.size(); ++i) list.push_back(values[is_known[i] ? i : 0]);
    Json json = Json::object();
    json.set("type", "vocabulary").set("key", name()).set("vocabulary", std::move(list));
    json.set("integers", this->integers()).set("num_oov_buckets", oov_buckets_);
    json.set("default_value", default_value_);
    return json;
  }

 private:
  const char* function() const override { return function_; }
  int64_t id_of(std::string_view text) const override {
    if constexpr (std::is_same_v<T, std::string>) {
      const auto found = index_.find(text);
      if (found != index_.end()) return found->second;
    }
    return oov_buckets_ == 0 ? default_value_ : beside(fingerprint64(text));
  }
  int64_t id_of(int64_t integer) const override {
    if constexpr (std::is_same_v<T, int64_t>) {
      const auto found = index_.find(integer);
      if (found != index_.end()) return found->second;
    }
    return oov_buckets_ == 0 ? default_value_ : beside(fingerprint_of(integer));
  }
  int64_t beside(uint64_t fingerprint) const {
    return size_ + static_cast<int64_t>(fingerprint % static_cast<uint64_t>(oov_buckets_));
  }

  typename IndexOf<T>::Map index_;
  int64_t size_ = 0;
  const int64_t default_value_;
  const int64_t oov_buckets_;
  const char* const function_;
};

constexpr const char* kList = "categorical_column_with_vocabulary_list";

struct Beside {
  std::optional<int64_t> default_value;
  int64_t num_oov_buckets;
};

template <typename T>
FeatureColumn vocabulary_column(std::string key, const std::vector<T>& vocabulary,
                                const Beside& beside, const char* function) {
  STRATA_CHECK(!vocabulary.empty(), kInvalidArgument, "[feature_column] ", function,
               ": vocabulary_list of '", key, "' must be non-empty.");
  STRATA_CHECK(beside.num_oov_buckets >= 0, kInvalidArgument, "[feature_column] ", function,
               ": Invalid num_oov_buckets ", beside.num_oov_buckets, " in ", key, ".");
  STRATA_CHECK(beside.num_oov_buckets == 0 || beside.default_value.value_or(-1) == -1,
               kInvalidArgument, "[feature_column] ", function,
               ": Can't specify both num_oov_buckets and default_value in ", key, ".");
  return FeatureColumn(std::make_shared<VocabularyColumn<T>>(std::move(key), vocabulary,
                                                             beside.default_value.value_or(-1),
                                                             beside.num_oov_buckets, function));
}

template <typename T>
FeatureColumn listed_column(std::string key, const std::vector<T>& vocabulary,
                            const VocabularyOptions& options) {
  std::unordered_map<T, bool> known;
  for (const T& value : vocabulary) {
    STRATA_CHECK(known.emplace(value, true).second, kInvalidArgument,
                 "[feature_column] categorical_column_with_vocabulary_list: Duplicate keys in ",
                 "vocabulary_list: ", value, ", column_name: ", key);
  }
  return vocabulary_column(std::move(key), vocabulary,
                           {options.default_value, options.num_oov_buckets}, kList);
}

constexpr const char* kFile = "categorical_column_with_vocabulary_file";

}  // namespace

FeatureColumn vocabulary_column_of(std::string key, const std::vector<std::string>& vocabulary,
                                   const VocabularyOptions& options) {
  return vocabulary_column(std::move(key), vocabulary,
                           {options.default_value, options.num_oov_buckets}, kList);
}
FeatureColumn vocabulary_column_of(std::string key, const std::vector<int64_t>& vocabulary,
                                   const VocabularyOptions& options) {
  return vocabulary_column(std::move(key), vocabulary,
                           {options.default_value, options.num_oov_buckets}, kList);
}

}  // namespace detail

FeatureColumn categorical_column_with_identity(std::string key, int64_t num_buckets,
                                               std::optional<int64_t> default_value) {
  STRATA_CHECK(num_buckets > 0, kInvalidArgument, "[feature_column] ",
               "categorical_column_with_identity: num_buckets ", num_buckets, " < 1, column_name ",
               key);
  STRATA_CHECK(
      !default_value || (*default_value >= 0 && *default_value < num_buckets), kInvalidArgument,
      "[feature_column] categorical_column_with_identity: ", "default_value ",
      default_value.value_or(0), " not in range [0, ", num_buckets, "), column_name ", key);
  return FeatureColumn(
      std::make_shared<detail::IdentityColumn>(std::move(key), num_buckets, default_value));
}

FeatureColumn categorical_column_with_vocabulary_list(std::string key,
                                                      std::vector<std::string> vocabulary,
                                                      const VocabularyOptions& options) {
  return detail::listed_column(std::move(key), vocabulary, options);
}
FeatureColumn categorical_column_with_vocabulary_list(std::string key,
                                                      std::vector<int64_t> vocabulary,
                                                      const VocabularyOptions& options) {
  return detail::listed_column(std::move(key), vocabulary, options);
}

FeatureColumn categorical_column_with_vocabulary_file(std::string key,
                                                      const std::string& vocabulary_file,
                                                      const VocabularyFileOptions& options) {
  STRATA_CHECK(!options.vocabulary_size || *options.vocabulary_size > 0, kInvalidArgument,
               "[feature_column] ", detail::kFile, ": Invalid vocabulary_size ",
               options.vocabulary_size.value_or(0), " in ", key, ".");
  const std::vector<std::string> lines = estimator::detail::read_vocabulary_file(
      str_cat("[feature_column] ", detail::kFile, " of '", key, "'"), vocabulary_file,
      options.vocabulary_size);
  const detail::Beside beside{options.default_value, options.num_oov_buckets};
  if (!options.integers) {
    return detail::vocabulary_column(std::move(key), lines, beside, detail::kFile);
  }
  std::vector<int64_t> integers;
  for (const std::string& line : lines) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    STRATA_CHECK(error == std::errc() && end == line.data() + line.size(), kInvalidArgument,
                 "[feature_column] ", detail::kFile, ": line ", integers.size() + 1, " of ",
                 vocabulary_file, " is '", line, "'; expected an integer");
    integers.push_back(value);
  }
  return detail::vocabulary_column(std::move(key), integers, beside, detail::kFile);
}

FeatureColumn categorical_column_with_hash_bucket(std::string key, int64_t hash_bucket_size,
                                                  const HashBucketOptions& options) {
  STRATA_CHECK(hash_bucket_size > 0, kInvalidArgument, "[feature_column] ",
               "categorical_column_with_hash_bucket: hash_bucket_size must be at least 1. ",
               "hash_bucket_size: ", hash_bucket_size, ", key: ", key);
  return FeatureColumn(
      std::make_shared<detail::HashColumn>(std::move(key), hash_bucket_size, options.integers));
}

}  // namespace strata::feature_column
