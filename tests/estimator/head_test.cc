#include "strata/estimator/head.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "support/expect_error.h"

namespace strata::estimator {
namespace {

at::Tensor row_of(std::vector<double> values) { return at::tensor(values, at::kFloat); }
at::Tensor column_of(std::vector<double> values) { return row_of(std::move(values)).unsqueeze(-1); }
Labels labels_of(const at::Tensor& values) { return Labels({{"label", {.values = values}}}); }
Labels words(const std::vector<std::string>& rows) {
  return Labels({{"label", text_feature(rows)}});
}

double loss(const Head& head, const at::Tensor& logits, const Labels& labels,
            const Features& features = {}) {
  return head.loss(logits, labels, features).item<double>();
}

// Targets 1, -1, 3, 2 and zero weights: the loss of training counts all rows, also those of weight
// 0.
TEST(HeadTest, WeightsMultiplyLossesAndAllRowsCount) {
  const at::Tensor logits = at::zeros({4, 1});
  const Labels labels = labels_of(row_of({1, -1, 3, 2}));
  const Features features = {{"w", {.values = row_of({1, 0, 2, 0.5})}}};
  EXPECT_DOUBLE_EQ(loss(regression_head({.weight_column = "w"}), logits, labels, features), 5.25);
  EXPECT_DOUBLE_EQ(loss(regression_head({.weight_column = "w", .loss_reduction = "sum"}), logits,
                        labels, features),
                   21);
  EXPECT_DOUBLE_EQ(loss(regression_head({.weight_column = feature_column::numeric_column("w")}),
                        logits, labels, features),
                   5.25);
}

TEST(HeadTest, RegressionDividesByAllElements) {
  const at::Tensor logits = at::zeros({2, 2});
  const Labels labels = labels_of(row_of({1, 2, 3, 4}).reshape({2, 2}));
  EXPECT_DOUBLE_EQ(loss(regression_head({.label_dimension = 2}), logits, labels), 7.5);
  // A weight for each output.
  const Features features = {{"w", {.values = row_of({1, 0, 0, 1}).reshape({2, 2})}}};
  EXPECT_DOUBLE_EQ(
      loss(regression_head({.label_dimension = 2, .weight_column = "w"}), logits, labels, features),
      17. / 4);
}

TEST(HeadTest, BinaryClassesAreWordsOrNumbers) {
  const at::Tensor logits = column_of({0, 2});
  const Head numbers = binary_class_head();
  const Features predictions = numbers.predictions(logits);
  // Of equal logits the first class.
  EXPECT_EQ(predictions.at("class_ids").values.flatten()[0].item<int64_t>(), 0);
  EXPECT_EQ(text_at(predictions.at("classes"), 1), "1");
  EXPECT_EQ(text_at(predictions.at("all_classes"), 0, 1), "1");
  const Head named = binary_class_head({.label_vocabulary = {"no", "yes"}});
  EXPECT_EQ(text_at(named.predictions(logits).at("classes"), 1), "yes");
  EXPECT_NEAR(loss(named, logits, words({"no", "yes"})),
              loss(numbers, logits, labels_of(row_of({0, 1}))), 1e-7);
  EXPECT_NEAR(loss(numbers, logits, labels_of(row_of({0.5, 0.5}))), (0.6931472 + 1.1269280) / 2,
              1e-6);
}

TEST(HeadTest, MultiLabelIsTheMeanOverClasses) {
  const at::Tensor logits = row_of({0, 1, -1, 2, 0, 0}).reshape({2, 3});
  const Labels dense = labels_of(at::tensor({1, 0, 0, 1, 1, 0}, at::kLong).reshape({2, 3}));
  const Head head = multi_label_head(3);
  const double wanted =
      at::binary_cross_entropy_with_logits(logits, dense.value().to(at::kFloat)).item<double>();
  EXPECT_NEAR(loss(head, logits, dense), wanted, 1e-6);
  Labels sparse(
      {{"label",
        {.values = at::tensor({0, -1, 0, 1}, at::kLong).reshape({2, 2}), .is_sparse = true}}});
  EXPECT_NEAR(loss(head, logits, sparse), wanted, 1e-6);
}

TEST(HeadTest, PoissonHasStirlingsTerm) {
  const at::Tensor logits = column_of({0, 1});
  const Labels labels = labels_of(row_of({1, 3}));
  const double e = std::exp(1.0),
               stirling = 3 * std::log(3.0) - 3 + 0.5 * std::log(2 * std::numbers::pi * 3);
  EXPECT_NEAR(loss(poisson_regression_head(), logits, labels), (1 + e - 3 + stirling) / 2, 1e-6);
  EXPECT_NEAR(loss(poisson_regression_head({.compute_full_loss = false}), logits, labels),
              (1 + e - 3) / 2, 1e-6);
  EXPECT_NEAR(
      poisson_regression_head().predictions(logits).at("predictions").values[1].item<double>(), e,
      1e-6);
}

TEST(HeadTest, LogisticRegressionPredictsTheSigmoid) {
  const Head head = logistic_regression_head();
  EXPECT_NEAR(loss(head, column_of({0}), labels_of(row_of({0.25}))), 0.6931472, 1e-6);
  EXPECT_NEAR(head.predictions(column_of({0})).at("predictions").values.item<double>(), 0.5, 1e-7);
  expect_error_containing([&] { loss(head, column_of({0}), labels_of(row_of({1.5}))); },
                          ErrorCode::kInvalidArgument, "labels must be in [0, 1]");
}

TEST(HeadTest, SeveralHeadsCutTheLogits) {
  const Head head =
      multi_head({regression_head({.name = "a"}), binary_class_head({.name = "b"})}, {1, 2});
  EXPECT_EQ(head.logits_dimension(), 2);
  const at::Tensor logits = row_of({1, 0, 3, 0}).reshape({2, 2});
  const Labels labels({{"a", {.values = row_of({0, 0})}}, {"b", {.values = row_of({0, 1})}}});
  EXPECT_NEAR(loss(head, logits, labels), 5 + 2 * 0.6931472, 1e-5);
  EXPECT_TRUE(head.predictions(logits).contains("b/logistic"));
  expect_error_containing(
      [&] {
        loss(head, logits, Labels({{"a", {.values = row_of({0, 0})}}}));
      },
      ErrorCode::kInvalidArgument, "no labels for the head 'b' among a");
}

TEST(HeadTest, RefusesWhatTensorFlowRefuses) {
  const at::Tensor two = at::zeros({2, 1});
  expect_error_containing([&] { loss(binary_class_head(), two, {}); }, ErrorCode::kInvalidArgument,
                          "You must provide a labels Tensor. Given: None.");
  expect_error_containing(
      [&] {
        loss(binary_class_head(), two, labels_of(at::zeros({2, 3})));
      },
      ErrorCode::kInvalidArgument, "Mismatched label shape.");
  expect_error_containing(
      [&] {
        loss(binary_class_head({.label_vocabulary = {"a", "b"}}), two, words({"a", "c"}));
      },
      ErrorCode::kInvalidArgument, "Labels must be >= 0");
  expect_error_containing(
      [&] {
        loss(multi_class_head(3), at::zeros({2, 3}), labels_of(at::tensor({0, 3}, at::kLong)));
      },
      ErrorCode::kInvalidArgument, "Labels must be >= 0 and <= n_classes - 1");
  expect_error_containing(
      [&] {
        loss(multi_class_head(3), at::zeros({2, 3}), labels_of(row_of({0, 1})));
      },
      ErrorCode::kInvalidArgument, "Labels dtype should be integer.");
  expect_error([] { binary_class_head({.thresholds = {1}}); },
               "[head] binary_class_head: thresholds not in (0, 1): 1.");
  expect_error([] { multi_class_head(3, {.label_vocabulary = {"a"}}); },
               "[head] \"label_vocabulary\" does not have \"n_classes\" items. "
               "len(label_vocabulary)=1, n_classes=3");
  expect_error([] { regression_head({.label_dimension = 0}); },
               "[head] regression_head: Invalid label_dimension 0.");
  expect_error([] { multi_head({regression_head()}); },
               "[head] multi_head: All given heads must have name specified.");
  expect_error(
      [] {
        multi_head({regression_head({.name = "a"}),
                    regression_head({.loss_reduction = "sum", .name = "b"})});
      },
      "[head] multi_head: The loss_reduction must be the same for different heads. Given: "
      "sum_over_batch_size, sum");
  expect_error_containing([] { regression_head({.loss_reduction = "none"}); },
                          ErrorCode::kInvalidArgument, "got loss_reduction='none'");
}

}  // namespace
}  // namespace strata::estimator
