#include "strata/estimator/feature_column.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "strata/estimator/feature_layers.h"
#include "strata/optim/optimizers.h"
#include "support/expect_error.h"

namespace strata::feature_column {
namespace {

Feature ints(const std::vector<int64_t>& values, at::IntArrayRef shape) {
  return {.values = at::tensor(values, at::kLong).reshape(shape)};
}
Feature floats(const std::vector<double>& values, at::IntArrayRef shape) {
  return {.values = at::tensor(values, at::kFloat).reshape(shape)};
}

FeatureColumn letters() {
  return categorical_column_with_vocabulary_list("s", std::vector<std::string>{"a", "b"});
}

TEST(FeatureColumnTest, NamesAreTensorFlows) {
  const FeatureColumn x = numeric_column("x");
  const FeatureColumn bucketized = bucketized_column(x, {0, 1});
  EXPECT_EQ(bucketized.name(), "x_bucketized");
  EXPECT_TRUE(bucketized.is_categorical() && bucketized.is_dense());
  EXPECT_FALSE(x.is_categorical());
  EXPECT_EQ(weighted_categorical_column(letters(), "w").name(), "s_weighted_by_w");
  EXPECT_EQ(indicator_column(letters()).name(), "s_indicator");
  EXPECT_EQ(embedding_column(letters(), 3).name(), "s_embedding");
  const FeatureColumn inner = crossed_column({"t", letters()}, 5);
  EXPECT_EQ(crossed_column({"z", inner, bucketized}, 7).name(), "s_X_t_X_x_bucketized_X_z");
}

TEST(FeatureColumnTest, RefusesWhatTensorFlowRefuses) {
  expect_error([] { crossed_column({"a"}, 5); },
               "[feature_column] crossed_column: keys must be a list with length > 1. Given: [a]");
  expect_error_containing(
      [] {
        crossed_column({"a", categorical_column_with_hash_bucket("b", 3)}, 5);
      },
      ErrorCode::kInvalidArgument,
      "categorical_column_with_hash_bucket is not supported for crossing. Hashing before crossing "
      "will increase probability of collision. Instead, use the feature name as a string.");
  expect_error(
      [] {
        categorical_column_with_vocabulary_list("s", std::vector<std::string>{"a", "a"});
      },
      "[feature_column] categorical_column_with_vocabulary_list: Duplicate keys in "
      "vocabulary_list: "
      "a, column_name: s");
  expect_error(
      [] {
        categorical_column_with_vocabulary_list("s", std::vector<std::string>{"a"},
                                                {.default_value = 0, .num_oov_buckets = 1});
      },
      "[feature_column] categorical_column_with_vocabulary_list: Can't specify both "
      "num_oov_buckets "
      "and default_value in s.");
  expect_error(
      [] {
        bucketized_column(numeric_column("x"), {1, 0});
      },
      "[feature_column] bucketized_column: boundaries must be a sorted list.");
  expect_error(
      [] { categorical_column_with_identity("i", 4, 4); },
      "[feature_column] categorical_column_with_identity: default_value 4 not in range [0, "
      "4), column_name i");
  expect_error([] { embedding_column(letters(), 0); },
               "[feature_column] embedding_column: Invalid dimension 0.");
  expect_error(
      [] { DenseFeatures({letters()}); },
      "[feature_column] DenseFeatures: got the categorical column 's'; expected a dense one: "
      "wrap it with embedding_column or indicator_column");
  expect_error(
      [] { indicator_column(numeric_column("x")); },
      "[feature_column] indicator_column: got the column 'x', which gives numbers; expected "
      "a categorical column");
  expect_error_containing(
      [] {
        DenseFeatures({numeric_column("x"), numeric_column("x")});
      },
      ErrorCode::kInvalidArgument, "Duplicate feature column name found");
  expect_error([] { (void)DenseFeatures({numeric_column("x")})({}); },
               "[feature_column] Feature x is not in features dictionary.");
}

TEST(FeatureColumnTest, WeightsAndEmbeddingsRefuseIdsBeyondTheTable) {
  const Features features = {{"i", ints({0, 7}, {2, 1})}};
  const FeatureColumn column = categorical_column_with_identity("i", 4);
  const std::string message =
      "[feature_column] 'i': got the id 7; expected ids below num_buckets = 4, or a default_value "
      "for those beyond it";
  expect_error([&] { (void)LinearModel({column})(features); }, ErrorCode::kOutOfRange, message);
  expect_error([&] { (void)DenseFeatures({embedding_column(column, 2)})(features); },
               ErrorCode::kOutOfRange, message);
}

TEST(FeatureColumnTest, ANaNIsInTheLastBucket) {
  const FeatureColumn column = bucketized_column(numeric_column("x"), {0, 1});
  const Features features = {{"x", floats({std::nan(""), 0.5}, {2})}};
  EXPECT_TRUE(at::equal(categorical_ids(column, features).ids,
                        at::tensor({2, 1}, at::kLong).reshape({2, 1})));
}

TEST(FeatureColumnTest, ACrossHasAllCombinationsOfARow) {
  Features features = {{"i", ints({1, 2, 3, -1}, {2, 2})}, {"j", ints({5, 6, -1, -1}, {2, 2})}};
  features["i"].is_sparse = features["j"].is_sparse = true;
  const CategoricalIds ids = categorical_ids(crossed_column({"i", "j"}, 1000), features);
  EXPECT_EQ(ids.ids.sizes(), at::IntArrayRef({2, 4}));
  EXPECT_TRUE(ids.present[0].all().item<bool>());
  EXPECT_FALSE(ids.present[1].any().item<bool>());
}

TEST(FeatureColumnTest, SharedEmbeddingsHaveOneTable) {
  const auto column = [](const char* key) { return categorical_column_with_identity(key, 3); };
  const auto shared = shared_embeddings({column("v"), column("u")}, 2);
  ASSERT_EQ(shared.size(), 2U);
  EXPECT_EQ(shared[0].name(), "v_shared_embedding");
  const DenseFeatures layer(shared, "input_layer");
  ASSERT_EQ(layer.variables().size(), 1U);
  EXPECT_EQ(layer.variables()[0].name(), "input_layer/u_v_shared_embedding");
  const at::Tensor y = layer({{"u", ints({0, 1}, {2})}, {"v", ints({1, 0}, {2})}});
  EXPECT_TRUE(at::equal(y[0].slice(0, 0, 2), y[1].slice(0, 2, 4)));
  expect_error_containing(
      [&] {
        shared_embeddings({column("u"), categorical_column_with_identity("w", 4)}, 2);
      },
      ErrorCode::kInvalidArgument, "which differ in num_buckets");
}

// Combiners of the linear model, as TensorFlow 2.15.1 trains them: ids {a, b} and {a}, targets 1
// and 2, SGD 0.2.
TEST(FeatureColumnTest, LinearModelTrainsWithEachCombiner) {
  Features features;
  features["s"] = {.values = at::zeros({2, 2, 1}, at::kByte), .is_text = true, .is_sparse = true};
  features["s"].values[0][0][0] = 'a';
  features["s"].values[0][1][0] = 'b';
  features["s"].values[1][0][0] = 'a';
  const at::Tensor targets = at::tensor({1., 2.}, at::kFloat).reshape({2, 1});
  const auto train = [&](const char* combiner) {
    const LinearModel model({letters()}, {.sparse_combiner = combiner});
    optimizers::SGD sgd(model.trainable_variables(), {.learning_rate = 0.2});
    sgd.minimize((model(features) - targets).square().mean());
    return model.variables();
  };
  const auto near = [](const at::Tensor& got, std::vector<double> wanted) {
    return at::allclose(got.flatten(), at::tensor(wanted, at::kFloat), 1e-3, 1e-4);
  };
  for (const auto& [combiner, wanted] : std::vector<std::pair<const char*, std::vector<double>>>{
           {"sum", {0.6, 0.2}}, {"mean", {0.5, 0.1}}, {"sqrtn", {0.5414, 0.1414}}}) {
    const auto variables = train(combiner);
    ASSERT_EQ(variables.size(), 2U);
    EXPECT_EQ(variables[0].name(), "linear_model/bias_weights");
    EXPECT_EQ(variables[1].name(), "linear_model/s/weights");
    EXPECT_TRUE(near(variables[1].value(), wanted)) << combiner << variables[1].value();
  }
}

// Rows that no id chooses have no gradient, also where other rows of the batch lack entries.
TEST(FeatureColumnTest, GradientsAreOfTheChosenRowsAlone) {
  const DenseFeatures layer(
      {embedding_column(categorical_column_with_identity("i", 5), 2, {.combiner = "sum"})});
  const Variable table = layer.variables().at(0);
  const Features features = {{"i", ints({3, -1, -1, -1, 2, 3}, {3, 2})}};
  layer(features).sum().backward();
  const at::Tensor gradient = table.value().grad();
  ASSERT_TRUE(gradient.is_sparse());
  const at::Tensor dense = gradient.to_dense();
  EXPECT_TRUE(at::equal(dense.select(1, 0), at::tensor({0., 0., 1., 2., 0.}, at::kFloat)));
  const at::Tensor rows = std::get<0>(at::_unique(gradient.coalesce()._indices()));
  EXPECT_TRUE(at::equal(rows, at::tensor({2, 3}, at::kLong)));
}

TEST(FeatureColumnTest, ABatchMayHaveNoRows) {
  const LinearModel model({letters(), numeric_column("x")});
  const Features none = {{"s", {.values = at::zeros({0, 1}, at::kByte), .is_text = true}},
                         {"x", {.values = at::zeros({0})}}};
  EXPECT_EQ(model(none).sizes(), at::IntArrayRef({0, 1}));
}

// TensorFlow drops weights of 0 from the weights alone, which then no longer fit the ids.
TEST(FeatureColumnTest, AWeightOfZeroAddsNothing) {
  const FeatureColumn column =
      indicator_column(weighted_categorical_column(categorical_column_with_identity("i", 3), "w"));
  const Features features = {{"i", ints({0, 2}, {1, 2})}, {"w", floats({0, 2}, {1, 2})}};
  EXPECT_TRUE(at::equal(DenseFeatures({column})(features),
                        at::tensor({0., 0., 2.}, at::kFloat).reshape({1, 3})));
}

}  // namespace
}  // namespace strata::feature_column
