#include "estimator/columns/column_json.h"

#include <charconv>
#include <optional>
#include <utility>

#include "estimator/columns/column_impl.h"
#include "strata/core/error.h"

namespace strata::feature_column::detail {
namespace {

std::optional<int64_t> optional_int(const Json& json, const char* name) {
  const Json& value = json.at(name);
  return value.is_null() ? std::nullopt : std::optional(value.as_int());
}

VocabularyOptions vocabulary_options(const Json& json) {
  const int64_t oov = json.at("num_oov_buckets").as_int();
  return {.default_value = oov > 0 ? std::nullopt : optional_int(json, "default_value"),
          .num_oov_buckets = oov};
}

FeatureColumn vocabulary_from(const Json& json) {
  const std::string key = json.at("key").as_string();
  const Json::Array& values = json.at("vocabulary").as_array();
  if (json.at("integers").as_bool()) {
    std::vector<int64_t> vocabulary;
    for (const Json& value : values) vocabulary.push_back(value.as_int());
    return vocabulary_column_of(key, vocabulary, vocabulary_options(json));
  }
  std::vector<std::string> vocabulary;
  for (const Json& value : values) vocabulary.push_back(value.as_string());
  return vocabulary_column_of(key, vocabulary, vocabulary_options(json));
}

FeatureColumn crossed_from(const Json& json) {
  std::vector<CrossedKey> keys;
  for (const Json& key : json.at("keys").as_array()) {
    if (key.is_string()) {
      keys.emplace_back(key.as_string());
    } else {
      keys.emplace_back(column_from_json(key));
    }
  }
  const std::string& text = json.at("hash_key").as_string();
  uint64_t hash_key = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), hash_key, /*base=*/16);
  STRATA_CHECK(error == std::errc() && end == text.data() + text.size(), kDataLoss,
               "[feature_column] got the hash_key '", text, "'; expected a hexadecimal number");
  return crossed_column(std::move(keys), json.at("hash_bucket_size").as_int(),
                        {.hash_key = hash_key});
}

FeatureColumn bucketized_from(const Json& json) {
  std::vector<int64_t> shape;
  for (const Json& size : json.at("shape").as_array()) shape.push_back(size.as_int());
  std::vector<double> boundaries;
  for (const Json& each : json.at("boundaries").as_array()) boundaries.push_back(each.as_double());
  return bucketized_column(numeric_column(json.at("key").as_string(), {.shape = std::move(shape)}),
                           std::move(boundaries));
}

}  // namespace

Json ColumnImpl::describe() const {
  throw Error(ErrorCode::kUnimplemented, str_cat("[feature_column] the column '", name(),
                                                 "' cannot be described in a saved model"));
}

FeatureColumn column_from_json(const Json& json) {
  const std::string& type = json.at("type").as_string();
  if (type == "identity") {
    return categorical_column_with_identity(json.at("key").as_string(),
                                            json.at("num_buckets").as_int(),
                                            optional_int(json, "default_value"));
  }
  if (type == "vocabulary") return vocabulary_from(json);
  if (type == "hash_bucket") {
    return categorical_column_with_hash_bucket(json.at("key").as_string(),
                                               json.at("hash_bucket_size").as_int(),
                                               {.integers = json.at("integers").as_bool()});
  }
  if (type == "crossed") return crossed_from(json);
  STRATA_CHECK(type == "bucketized", kDataLoss, "[feature_column] got a column of type '", type,
               "'; expected identity, vocabulary, hash_bucket, crossed or bucketized");
  return bucketized_from(json);
}

}  // namespace strata::feature_column::detail
