// Feature columns against what TensorFlow 2.15.1 printed.

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "estimator/golden_columns.h"
#include "strata/core/error.h"
#include "strata/estimator/feature_layers.h"
#include "support/temp_folder.h"

namespace strata::feature_column {
namespace {

using estimator::golden_case;
using estimator::golden_column;
using estimator::golden_columns;
using estimator::golden_features;
using estimator::is_near;
using estimator::json;
using estimator::numbers;

std::string hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

TEST(ColumnsGoldenTest, FingerprintsAndHashBucketsEqualTensorFlows) {
  const json& given = golden_case("hash of strings and integers");
  const auto buckets = given["buckets"].get<std::vector<int64_t>>();
  ASSERT_GE(given["values"].size(), 30U);
  for (size_t i = 0; i < given["values"].size(); ++i) {
    const json& value = given["values"][i];
    const json& wanted = given["out"][i];
    const bool is_text = value.is_string();
    const std::string text =
        is_text ? value.get<std::string>() : std::to_string(value.get<int64_t>());
    EXPECT_EQ(hex(fingerprint64(text)), wanted["fingerprint"]) << text;
    // Columns drop the empty text and -1 as missing: these have a fingerprint alone.
    const bool missing = text.empty() || text == "-1";
    estimator::Feature feature =
        is_text ? estimator::text_feature(std::vector<std::string>{text})
                : estimator::Feature{at::full({1}, value.get<int64_t>(), at::kLong)};
    for (size_t b = 0; b < buckets.size(); ++b) {
      const FeatureColumn column =
          categorical_column_with_hash_bucket("v", buckets[b], {.integers = !is_text});
      const CategoricalIds ids = categorical_ids(column, {{"v", feature}});
      EXPECT_EQ(ids.present.item<bool>(), !missing) << text;
      EXPECT_EQ(ids.ids.item<int64_t>(), missing ? -1 : wanted["ids"][b].get<int64_t>()) << text;
    }
  }
}

TEST(ColumnsGoldenTest, CrossesEqualTensorFlows) {
  const json& given = golden_case("cross hash");
  int compared = 0;
  for (size_t i = 0; i < given["items"].size(); ++i) {
    const json& item = given["items"][i];
    const int64_t buckets = item["num_buckets"];
    if (buckets == 0) continue;  // the op alone takes it: columns refuse it
    estimator::Features features;
    std::vector<CrossedKey> keys;
    for (const json& column : item["columns"]) {
      const std::string key = "k" + std::to_string(keys.size());
      keys.emplace_back(key);
      if (column.contains("strings")) {
        auto feature = estimator::text_feature(column["strings"].get<std::vector<std::string>>());
        feature.values = feature.values.unsqueeze(0);
        features.emplace(key, feature);
      } else {
        features.emplace(key,
                         estimator::Feature{
                             at::tensor(column["ints"].get<std::vector<int64_t>>()).unsqueeze(0)});
      }
    }
    CrossedColumnOptions options;
    if (item.contains("hash_key")) {
      options.hash_key = std::stoull(item["hash_key"].get<std::string>(), nullptr, 16);
    }
    const CategoricalIds ids = categorical_ids(crossed_column(keys, buckets, options), features);
    std::vector<std::string> got;
    for (int64_t n = 0; n < ids.ids.numel(); ++n) {
      got.push_back(std::to_string(ids.ids.flatten()[n].item<int64_t>()));
    }
    EXPECT_EQ(got, given["out"][i].get<std::vector<std::string>>()) << item.dump();
    ++compared;
  }
  EXPECT_EQ(compared, 6);
}

// TensorFlow takes inputs that are sparse before dense ones, whatever the order of the keys.
TEST(ColumnsGoldenTest, ACrossTakesSparseFeaturesFirst) {
  const auto words = [](const std::string& word) {
    return estimator::text_feature(std::vector<std::string>{word});
  };
  estimator::Features features = {{"s", words("a")}, {"t", words("x")}};
  const auto id = [&](std::vector<CrossedKey> keys) {
    return categorical_ids(crossed_column(std::move(keys), 100), features).ids.item<int64_t>();
  };
  EXPECT_EQ(id({"s", "t"}), 92);
  EXPECT_EQ(id({"t", "s"}), 37);
  features["t"].is_sparse = true;
  EXPECT_EQ(id({"s", "t"}), 37);
}

void expect_ids(const json& item, const json& wanted, const FeatureColumn& column) {
  EXPECT_EQ(column.name(), wanted["name"]);
  EXPECT_EQ(column.num_buckets(), wanted["num_buckets"]);
  const CategoricalIds got = categorical_ids(column, golden_features(item["features"]));
  EXPECT_EQ(got.ids.sizes().vec(), wanted["shape"].get<std::vector<int64_t>>());
  std::vector<std::vector<int64_t>> indices;
  std::vector<int64_t> ids;
  std::vector<double> weights;
  for (int64_t row = 0; row < got.ids.size(0); ++row) {
    for (int64_t i = 0; i < got.ids.size(1); ++i) {
      if (!got.present[row][i].item<bool>()) continue;
      indices.push_back({row, i});
      ids.push_back(got.ids[row][i].item<int64_t>());
      if (got.weights.defined()) weights.push_back(got.weights[row][i].item<double>());
    }
  }
  EXPECT_EQ(indices, wanted["indices"].get<std::vector<std::vector<int64_t>>>());
  EXPECT_EQ(ids, wanted["ids"].get<std::vector<int64_t>>());
  EXPECT_EQ(weights, wanted.value("weights", std::vector<double>()));
}

// TensorFlow refuses `int64 - float` in a normalizer. libtorch computes it, so this column has
// values here.
bool is_promoted_by_libtorch(const json& wanted) {
  return wanted.contains("raises") && wanted["raises"] == "TypeError";
}

TEST(ColumnsGoldenTest, ColumnsEqualTensorFlows) {
  int compared = 0;
  for (const json& given : estimator::golden_cases()) {
    if (given["kind"] != "columns") continue;
    for (size_t i = 0; i < given["items"].size(); ++i) {
      SCOPED_TRACE(given["items"][i].dump());
      json item = given["items"][i];
      const json& wanted = given["out"][i];
      const test::TempFolder folder;
      if (item["columns"][0]["type"] == "vocabulary_file") {
        const json& file = item["columns"][0];
        const std::string path = folder.path() + "/vocabulary";
        std::ofstream(path, std::ios::binary) << file["content"].get<std::string>();
        VocabularyFileOptions options;
        if (file.contains("vocabulary_size"))
          options.vocabulary_size = file["vocabulary_size"].get<int64_t>();
        options.num_oov_buckets = file.value("num_oov_buckets", 0);
        expect_ids(item, wanted,
                   categorical_column_with_vocabulary_file(file["key"], path, options));
        ++compared;
        continue;
      }
      const auto columns = golden_columns(item["columns"]);
      if (item["give"] == "ids") {
        expect_ids(item, wanted, columns.at(0));
      } else {
        const DenseFeatures layer(columns);
        const at::Tensor got = layer(golden_features(item["features"]));
        EXPECT_EQ(got.size(1), layer.width());
        if (is_promoted_by_libtorch(wanted)) {
          // In the order B, a, a_10, a_9, b.
          EXPECT_TRUE(is_near(
              got,
              at::tensor({7., 3., 4., 11., 2., 1., 8., 5., 6., 12., 2.25, 2.}).reshape({2, 6})))
              << got;
        } else {
          const at::Tensor dense =
              numbers(wanted["dense"])
                  .reshape(wanted["dense"]["shape"].get<std::vector<int64_t>>());
          EXPECT_TRUE(is_near(got, dense)) << got << dense;
        }
      }
      ++compared;
    }
  }
  EXPECT_EQ(compared, 27);
}

}  // namespace
}  // namespace strata::feature_column
