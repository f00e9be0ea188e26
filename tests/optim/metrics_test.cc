#include "strata/optim/metrics.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "strata/core/error.h"
#include "support/expect_error.h"

namespace strata::metrics {
namespace {

using at::Tensor;

TEST(MetricsTest, SparseAccuracyEqualsArgmax) {
  at::manual_seed(4);
  for (const int64_t classes : {1, 3, 10, 100}) {
    for (const int64_t rows : {0, 1, 33}) {
      const Tensor scores = at::randint(4, {rows, classes}, at::kFloat);  // many ties
      const Tensor labels = at::randint(classes, {rows}, at::kLong);
      const Tensor expected = scores.argmax(-1).eq(labels).to(at::kFloat);
      EXPECT_TRUE(at::equal(sparse_categorical_accuracy(labels, scores), expected));
      EXPECT_TRUE(at::equal(sparse_categorical_accuracy(labels.to(at::kInt).unsqueeze(-1), scores),
                            expected));
      EXPECT_TRUE(at::equal(sparse_categorical_accuracy(labels, scores.to(at::kDouble)), expected));
      EXPECT_TRUE(
          at::equal(sparse_categorical_accuracy(labels, scores.t().contiguous().t()), expected));
    }
  }
  Tensor with_nan = at::rand({2, 5});
  with_nan[1][3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(sparse_categorical_accuracy(at::full({2}, 3, at::kLong), with_nan)[1].item<float>(), 1);
}

TEST(MetricsTest, BatchesOfNoRowsGiveNoValues) {
  const Tensor none = at::empty({0, 6}), labels = at::empty({0}, at::kLong);
  for (const Tensor& values :
       {categorical_accuracy(none, none), sparse_categorical_accuracy(labels, none),
        top_k_categorical_accuracy(none, none),
        sparse_top_k_categorical_accuracy(labels, none, 2)}) {
    EXPECT_EQ(values.sizes(), at::IntArrayRef({0}));
    EXPECT_EQ(values.scalar_type(), at::kFloat);
  }
  EXPECT_EQ(accuracy(none, none).numel(), 0);
  EXPECT_EQ(binary_accuracy(none, none).numel(), 0);
}

TEST(MetricsTest, TakesNoGradient) {
  const Tensor scores = at::rand({3, 4}).set_requires_grad(true);
  EXPECT_FALSE(sparse_categorical_accuracy(at::zeros({3}, at::kLong), scores).requires_grad());
  EXPECT_FALSE(binary_accuracy(at::zeros({3, 4}), scores).requires_grad());
}

TEST(MetricsTest, TopKIsFalseWhereNothingCanBeSaid) {
  Tensor scores = at::arange(6, at::kFloat).repeat({4, 1});
  scores[2][0] = std::numeric_limits<float>::infinity();
  const Tensor labels = at::tensor({5, 6, 5, 0}, at::kLong);
  const Tensor values = sparse_top_k_categorical_accuracy(labels, scores, 2);
  EXPECT_TRUE(at::equal(values, at::tensor({1.0F, 0.0F, 0.0F, 0.0F})));
}

TEST(MetricsTest, OtherShapesAreRefused) {
  expect_error(
      [] {
        sparse_categorical_accuracy(at::zeros({2}), at::zeros({3, 4}));
      },
      "[metrics] sparse_categorical_accuracy: got y_true of shape [2] and y_pred of shape [3, 4]; "
      "expected one "
      "class number for each row of y_pred");
  expect_error(
      [] {
        categorical_accuracy(at::zeros({3}), at::zeros({3, 4}));
      },
      "[metrics] categorical_accuracy: got y_true of shape [3] and y_pred of shape [3, 4]; "
      "expected equal "
      "shapes");
  expect_error(
      [] {
        accuracy(at::zeros({3, 1}), at::zeros({3, 4}));
      },
      "[metrics] accuracy: got y_true of shape [3, 1] and y_pred of shape [3, 4]; expected equal "
      "shapes");
}

}  // namespace
}  // namespace strata::metrics
