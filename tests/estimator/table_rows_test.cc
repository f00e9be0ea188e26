#include "strata/estimator/table_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>

#include "strata/data/iterator.h"
#include "strata/estimator/feature_layers.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace strata::estimator {
namespace {

namespace fc = feature_column;
using data::FeatureType;
using data::TfFeature;

std::vector<fc::FeatureColumn> all_kinds() {
  const auto words =
      fc::categorical_column_with_vocabulary_list("s", std::vector<std::string>{"a", "b"});
  return {fc::numeric_column("x", {.shape = {2}, .default_value = std::vector<double>{0.5}}),
          fc::weighted_categorical_column(fc::categorical_column_with_identity("i", 4), "w"),
          fc::indicator_column(words), fc::crossed_column({"t", words}, 10)};
}

TEST(TableRowsTest, ColumnsNameTheFeaturesOfExamples) {
  const ExampleSpec spec = make_parse_example_spec(all_kinds());
  std::map<std::string, data::FeatureSpec> by_name(spec.begin(), spec.end());
  ASSERT_EQ(by_name.size(), 5U);
  const auto& x = std::get<data::FixedLenFeature>(by_name.at("x"));
  EXPECT_EQ(x.shape, std::vector<int64_t>{2});
  EXPECT_EQ(x.default_value, TfFeature::floats({0.5F}));
  EXPECT_EQ(std::get<data::VarLenFeature>(by_name.at("i")).type, FeatureType::kInt64);
  EXPECT_EQ(std::get<data::VarLenFeature>(by_name.at("w")).type, FeatureType::kFloat);
  EXPECT_EQ(std::get<data::VarLenFeature>(by_name.at("s")).type, FeatureType::kBytes);
  EXPECT_EQ(std::get<data::VarLenFeature>(by_name.at("t")).type, FeatureType::kBytes);
}

TEST(TableRowsTest, LabelsAndWeightsAreNoFeatures) {
  const std::vector<fc::FeatureColumn> x = {fc::numeric_column("x")};
  EXPECT_EQ(classifier_parse_example_spec(x, "y", {.weight_column = "w"}).size(), 3U);
  EXPECT_EQ(std::get<data::FixedLenFeature>(
                regressor_parse_example_spec(x, "y", {.label_dimension = 3}).at(1).second)
                .shape,
            std::vector<int64_t>{3});
  expect_error([&] { classifier_parse_example_spec(x, "x"); },
               "[estimator] label should not be used as feature. Given: 'x'");
  expect_error_containing(
      [] {
        make_parse_example_spec(
            {fc::numeric_column("x"), fc::categorical_column_with_identity("x", 2)});
      },
      ErrorCode::kInvalidArgument, "contain different specs for the feature 'x'");
}

TEST(TableRowsTest, ABatchOfExamplesIsFeatures) {
  const ExampleSpec spec = make_parse_example_spec(all_kinds());
  const std::string first = data::serialize_example({{"x", TfFeature::floats({1, 2})},
                                                     {"i", TfFeature::int64s({3, 1})},
                                                     {"w", TfFeature::floats({0.5, 2})},
                                                     {"s", TfFeature::bytes({"b"})},
                                                     {"t", TfFeature::bytes({"u"})}});
  const std::string second = data::serialize_example({});
  const std::vector<std::string_view> batch = {first, second};
  const Features features = features_of(data::ExampleParser(spec).parse_batch(batch), spec);
  EXPECT_TRUE(
      at::equal(features.at("i").values, at::tensor({3, 1, -1, -1}, at::kLong).reshape({2, 2})));
  EXPECT_TRUE(features.at("s").is_text && features.at("s").is_sparse);
  EXPECT_FALSE(features.at("x").is_sparse);
  EXPECT_EQ(text_at(features.at("s"), 0), "b");
  std::vector<fc::FeatureColumn> without_cross = all_kinds();
  without_cross.pop_back();  // it hashes
  const fc::LinearModel model(without_cross);
  EXPECT_EQ(model(features).sizes(), at::IntArrayRef({2, 1}));

  // The same by rows.
  const TableRows rows =
      example_rows(data::Dataset::from_tensors({data::bytes_tensor(first)})
                       .concatenate(data::Dataset::from_tensors({data::bytes_tensor(second)})),
                   spec, "x");
  const Input input = rows.batch(2);
  ASSERT_EQ(input.labels.size(), 1U);
  EXPECT_EQ(input.labels[0].name, "x");
  int batches = 0;
  for (const data::Example& element : input.dataset) {
    ++batches;
    ASSERT_EQ(element.size(), 5);
    for (size_t i = 0; i < input.features.size(); ++i) {
      const FieldName& field = input.features[i];
      EXPECT_EQ(field.is_text, features.at(field.name).is_text);
      EXPECT_TRUE(at::equal(element.fields[i], features.at(field.name).values)) << field.name;
    }
    EXPECT_TRUE(at::equal(element.fields.back(), features.at("x").values));
  }
  EXPECT_EQ(batches, 1);
}

TEST(TableRowsTest, CsvColumnsHaveNames) {
  const test::TempFolder folder;
  const std::string path = folder.path() + "/rows.csv";
  std::ofstream(path) << "age,income,job\n30,1,cook\n41,0,\n";
  const TableRows rows = csv_rows({path},
                                  {{"age", data::CsvColumn::float32()},
                                   {"income", data::CsvColumn::int64()},
                                   {"job", data::CsvColumn::string("")}},
                                  {.label_name = "income"});
  const Input input = rows.batch(8);
  ASSERT_EQ(input.features.size(), 2U);
  EXPECT_EQ(input.features[1].name, "job");
  EXPECT_TRUE(input.features[1].is_text);
  int batches = 0;
  for (const data::Example& batch : input.dataset) {
    ++batches;
    EXPECT_TRUE(at::equal(batch[0], at::tensor({30., 41.}, at::kFloat)));
    EXPECT_TRUE(at::equal(batch[2], at::tensor({1, 0}, at::kLong)));
    const Feature job{.values = batch[1], .is_text = true};
    EXPECT_EQ(text_at(job, 0), "cook");
    EXPECT_EQ(text_at(job, 1), "");
  }
  EXPECT_EQ(batches, 1);
  expect_error(
      [&] {
        csv_rows({path}, {{"a", data::CsvColumn::int64()}}, {.label_name = "b"});
      },
      "[estimator] table rows: got the label 'b'; expected one of a");
}

}  // namespace
}  // namespace strata::estimator
