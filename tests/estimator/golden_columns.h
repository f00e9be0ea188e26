#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "strata/estimator/feature_column.h"
#include "strata/estimator/features.h"
#include "support/source_path.h"

/// Reads columns, features and tensors as tests/estimator/golden/estimator-golden.json has them.
/// That file is printed by tensorflow_estimator 2.15.0.
namespace strata::estimator {

using nlohmann::json;

inline const json& golden_cases() {
  static const json golden = [] {
    std::ifstream file(test::source_path("tests/estimator/golden/estimator-golden.json"));
    return json::parse(file);
  }();
  return golden["cases"];
}

inline const json& golden_case(const std::string& name) {
  for (const json& each : golden_cases()) {
    if (each["name"] == name) return each;
  }
  throw std::runtime_error("no golden case '" + name + "'");
}

/// NaN and infinities are written as texts.
inline double number(const json& value) {
  return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
}

inline at::Tensor numbers(const json& given) {
  std::vector<double> data;
  for (const json& value : given["data"]) data.push_back(number(value));
  const std::string dtype = given["dtype"];
  const auto type = dtype == "int64" ? at::kLong : (dtype == "int32" ? at::kInt : at::kFloat);
  return at::tensor(data, at::kDouble).to(type);
}

inline std::vector<std::string> texts(const json& given) {
  return given["data"].get<std::vector<std::string>>();
}

inline Feature golden_feature(const json& given) {
  const auto shape = given["shape"].get<std::vector<int64_t>>();
  const bool is_text = given["dtype"] == "string";
  at::Tensor flat = is_text ? text_feature(texts(given)).values : numbers(given);
  if (!given.contains("indices")) {
    std::vector<int64_t> sizes = shape;
    if (is_text) sizes.push_back(flat.size(-1));
    return {.values = flat.reshape(sizes), .is_text = is_text};
  }
  at::Tensor values = is_text ? at::zeros({shape[0], shape[1], flat.size(-1)}, at::kByte)
                              : at::full({shape[0], shape[1]}, -1, flat.options());
  for (size_t i = 0; i < given["indices"].size(); ++i) {
    const auto at = given["indices"][i].get<std::vector<int64_t>>();
    values[at[0]][at[1]].copy_(flat[static_cast<int64_t>(i)]);
  }
  return {.values = values, .is_text = is_text, .is_sparse = true};
}

inline Features golden_features(const json& given) {
  Features features;
  for (const auto& [name, feature] : given.items()) {
    features.emplace(name, golden_feature(feature));
  }
  return features;
}

inline at::Tensor matrix(const json& rows) {
  std::vector<at::Tensor> all;
  for (const json& row : rows)
    all.push_back(at::tensor(row.get<std::vector<double>>(), at::kFloat));
  return at::stack(all);
}

inline feature_column::FeatureColumn golden_column(const json& given) {
  namespace fc = feature_column;
  const std::string type = given["type"];
  const auto optional_int = [&](const char* name) {
    return given.contains(name) ? std::optional<int64_t>(given[name].get<int64_t>()) : std::nullopt;
  };
  if (type == "numeric") {
    fc::NumericColumnOptions options;
    if (given.contains("shape")) options.shape = given["shape"].get<std::vector<int64_t>>();
    if (given.contains("normalizer")) {
      const double subtract = given["normalizer"]["subtract"];
      const double divide_by = given["normalizer"]["divide_by"];
      options.normalizer_fn = [=](const at::Tensor& x) { return (x - subtract) / divide_by; };
    }
    return fc::numeric_column(given["key"], options);
  }
  if (type == "bucketized") {
    return fc::bucketized_column(golden_column(given["source"]),
                                 given["boundaries"].get<std::vector<double>>());
  }
  if (type == "identity") {
    return fc::categorical_column_with_identity(given["key"], given["num_buckets"],
                                                optional_int("default_value"));
  }
  if (type == "vocabulary_list") {
    const fc::VocabularyOptions options{.default_value = optional_int("default_value"),
                                        .num_oov_buckets = given.value("num_oov_buckets", 0)};
    if (given["vocabulary"][0].is_string()) {
      return fc::categorical_column_with_vocabulary_list(
          given["key"], given["vocabulary"].get<std::vector<std::string>>(), options);
    }
    return fc::categorical_column_with_vocabulary_list(
        given["key"], given["vocabulary"].get<std::vector<int64_t>>(), options);
  }
  if (type == "hash_bucket") {
    return fc::categorical_column_with_hash_bucket(
        given["key"], given["hash_bucket_size"],
        {.integers = given.value("dtype", "string") == "int64"});
  }
  if (type == "crossed") {
    std::vector<fc::CrossedKey> keys;
    for (const json& key : given["keys"]) {
      if (key.is_string()) {
        keys.emplace_back(key.get<std::string>());
      } else {
        keys.emplace_back(golden_column(key));
      }
    }
    fc::CrossedColumnOptions options;
    if (given.contains("hash_key")) {
      options.hash_key = std::stoull(given["hash_key"].get<std::string>(), nullptr, 16);
    }
    return fc::crossed_column(keys, given["hash_bucket_size"], options);
  }
  if (type == "weighted") {
    return fc::weighted_categorical_column(golden_column(given["column"]), given["weight_key"]);
  }
  if (type == "indicator") return fc::indicator_column(golden_column(given["column"]));
  if (type == "embedding") {
    const at::Tensor weights = matrix(given["weights"]);
    fc::EmbeddingColumnOptions options{.combiner = given.value("combiner", "mean")};
    options.initializer = initializers::Initializer(
        [weights](at::IntArrayRef, at::ScalarType) { return weights.clone(); });
    if (given.contains("max_norm")) options.max_norm = given["max_norm"].get<double>();
    return fc::embedding_column(golden_column(given["column"]), weights.size(1), options);
  }
  throw std::runtime_error("no column of type " + type);
}

inline std::vector<feature_column::FeatureColumn> golden_columns(const json& given) {
  std::vector<feature_column::FeatureColumn> columns;
  for (const json& each : given) columns.push_back(golden_column(each));
  return columns;
}

/// Within 1e-5 of the value, or of 1e-6 near zero.
inline bool is_near(const at::Tensor& got, const at::Tensor& wanted) {
  return got.sizes() == wanted.sizes() &&
         at::allclose(got.to(at::kDouble), wanted.to(at::kDouble), 1e-5, 1e-6);
}

}  // namespace strata::estimator
