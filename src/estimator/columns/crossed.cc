#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/join.h"
#include "data/hashes.h"
#include "estimator/columns/column_impl.h"
#include "estimator/columns/exported_ids.h"
#include "estimator/columns/host_entries.h"
#include "strata/core/error.h"

namespace strata::feature_column {
namespace detail {
namespace {

/// One key's part of a batch: values of a feature, or ids of a column.
struct Part {
  at::Tensor values;
  bool is_text = false;
  bool is_sparse = false;
  int64_t missing = kAbsent;  ///< The integer of a sparse part that is no entry.
};

class CrossedColumn final : public ColumnImpl, public CategoricalColumn {
 public:
  CrossedColumn(std::string name, std::vector<CrossedKey> keys, int64_t size, uint64_t hash_key)
      : ColumnImpl(std::move(name)), keys_(std::move(keys)), size_(size), hash_key_(hash_key) {}

  const CategoricalColumn* categorical() const override { return this; }
  int64_t num_buckets() const override { return size_; }
  const std::vector<CrossedKey>& keys() const { return keys_; }

  Entries entries(const Features& features) const override {
    return entries_or_exported(*this, [&] { return entries_of(features); });
  }
  Json describe() const override {
    Json keys = Json::array();
    for (const CrossedKey& key : keys_) {
      const auto* name = std::get_if<std::string>(&key);
      keys.push_back(name != nullptr ? Json(*name)
                                     : std::get<FeatureColumn>(key).impl()->describe());
    }
    char hash_key[17];
    std::snprintf(hash_key, sizeof(hash_key), "%llx", static_cast<unsigned long long>(hash_key_));
    Json json = Json::object();
    json.set("type", "crossed").set("keys", std::move(keys)).set("hash_bucket_size", size_);
    json.set("hash_key", hash_key);
    return json;
  }

  void add_features(ExampleFeatures& features) const override {
    for (const CrossedKey& key : keys_) {
      if (const auto* name = std::get_if<std::string>(&key)) {
        add_feature(features, *name, data::VarLenFeature{data::FeatureType::kBytes});
      } else {
        std::get<FeatureColumn>(key).impl()->add_features(features);
      }
    }
  }

 private:
  Entries entries_of(const Features& features) const {
    std::vector<Part> parts;
    for (const CrossedKey& key : keys_) parts.push_back(part_of(key, features));
    std::ranges::stable_partition(parts, &Part::is_sparse);
    std::vector<at::Tensor> values;
    int64_t most = 1;
    for (Part& part : parts) {
      most *= most_entries(part.values, part.is_text);
      values.push_back(std::exchange(part.values, {}));
    }
    return {.ids = ids_on_host("strata::crossed_ids", values, most,
                               [parts, size = size_, hash_key = hash_key_](
                                   const std::vector<at::Tensor>& inputs, at::Tensor& ids) {
                                 cross(parts, inputs, size, hash_key, ids);
                               })};
  }

  static Part part_of(const CrossedKey& key, const Features& features) {
    if (const auto* name = std::get_if<std::string>(&key)) {
      const Feature& feature = feature_of(features, *name);
      return {.values = feature.values,
              .is_text = feature.is_text,
              .is_sparse = feature.is_sparse,
              .missing = -1};
    }
    const auto& column = std::get<FeatureColumn>(key);
    return {.values = column.impl()->categorical()->entries(features).ids, .is_sparse = true};
  }

  /// The fingerprints of a row's entries.
  static void read(const Part& part, const HostEntries& entries, int64_t row,
                   std::vector<uint64_t>& prints) {
    prints.clear();
    for (int64_t i = 0; i < entries.most(); ++i) {
      if (part.is_text) {
        const std::string_view text = entries.text(row, i);
        if (!part.is_sparse || !text.empty()) prints.push_back(fingerprint64(text));
      } else {
        const int64_t value = entries.integer(row, i);
        if (!part.is_sparse || value != part.missing) {
          prints.push_back(static_cast<uint64_t>(value));
        }
      }
    }
  }

  static void cross(const std::vector<Part>& parts, const std::vector<at::Tensor>& inputs,
                    int64_t size, uint64_t hash_key, at::Tensor& ids) {
    std::vector<HostEntries> entries;
    for (size_t p = 0; p < parts.size(); ++p) entries.emplace_back(inputs[p], parts[p].is_text);
    const auto modulus =
        static_cast<uint64_t>(size > 0 ? size : std::numeric_limits<int64_t>::max());
    auto* const all = ids.mutable_data_ptr<int64_t>();
    std::vector<uint64_t> prints, hashes, longer;
    for (int64_t row = 0; row < ids.size(0); ++row) {
      hashes = {hash_key};
      for (size_t p = 0; p < parts.size(); ++p) {
        read(parts[p], entries[p], row, prints);
        longer.clear();
        for (const uint64_t hash : hashes) {
          for (const uint64_t print : prints) longer.push_back(data::fingerprint_cat(hash, print));
        }
        hashes.swap(longer);
      }
      std::ranges::transform(hashes, all + row * ids.size(1),
                             [&](uint64_t hash) { return static_cast<int64_t>(hash % modulus); });
    }
  }

  const std::vector<CrossedKey> keys_;
  const int64_t size_;
  const uint64_t hash_key_;
};

std::string name_of(const CrossedKey& key) {
  const auto* name = std::get_if<std::string>(&key);
  return name != nullptr ? *name : std::get<FeatureColumn>(key).name();
}

}  // namespace
}  // namespace detail

FeatureColumn crossed_column(std::vector<CrossedKey> keys, int64_t hash_bucket_size,
                             const CrossedColumnOptions& options) {
  STRATA_CHECK(hash_bucket_size > 0, kInvalidArgument, "[feature_column] crossed_column: ",
               "hash_bucket_size must be > 1. hash_bucket_size: ", hash_bucket_size);
  STRATA_CHECK(keys.size() > 1, kInvalidArgument,
               "[feature_column] crossed_column: keys must be a ", "list with length > 1. Given: [",
               join(keys, detail::name_of), "]");
  std::vector<CrossedKey> leaves;
  for (const CrossedKey& key : keys) {
    if (const auto* column = std::get_if<FeatureColumn>(&key)) {
      const detail::CategoricalColumn& given = detail::categorical(*column, "crossed_column");
      STRATA_CHECK(!given.is_hashed(), kInvalidArgument, "[feature_column] crossed_column: ",
                   "categorical_column_with_hash_bucket is not supported for crossing. Hashing ",
                   "before crossing will increase probability of collision. Instead, use the ",
                   "feature name as a string. Given: ", column->name());
      if (const auto* inner = dynamic_cast<const detail::CrossedColumn*>(column->impl().get())) {
        leaves.insert(leaves.end(), inner->keys().begin(), inner->keys().end());
        continue;
      }
    }
    leaves.push_back(key);
  }
  std::vector<std::string> names;
  for (const CrossedKey& leaf : leaves) names.push_back(detail::name_of(leaf));
  std::ranges::sort(names);
  return FeatureColumn(std::make_shared<detail::CrossedColumn>(
      join(names, {}, "_X_"), std::move(leaves), hash_bucket_size,
      options.hash_key.value_or(0xDECAFCAFFE)));
}

}  // namespace strata::feature_column
