#include "strata/keras/random.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace strata::keras {
namespace {

const Shape kMany = {20000};

double mean(const at::Tensor& x) { return x.to(at::kDouble).mean().item<double>(); }
double deviation(const at::Tensor& x) { return x.to(at::kDouble).std().item<double>(); }
double least(const at::Tensor& x) { return x.to(at::kDouble).min().item<double>(); }
double most(const at::Tensor& x) { return x.to(at::kDouble).max().item<double>(); }

TEST(RandomTest, DistributionsHaveTheirMoments) {
  at::manual_seed(4);
  const at::Tensor normal = random::normal(kMany, 2, 3);
  EXPECT_NEAR(mean(normal), 2, 0.1);
  EXPECT_NEAR(deviation(normal), 3, 0.1);
  const at::Tensor cut = random::truncated_normal(kMany, 2, 3);
  EXPECT_NEAR(mean(cut), 2, 0.1);
  EXPECT_NEAR(deviation(cut), 3 * 0.8796, 0.1);  // of a normal cut at two deviations
  EXPECT_GE(least(cut), 2 - 6.001);
  EXPECT_LE(most(cut), 2 + 6.001);
  const at::Tensor uniform = random::uniform(kMany, -1, 3);
  EXPECT_NEAR(mean(uniform), 1, 0.05);
  EXPECT_GE(least(uniform), -1);
  EXPECT_LT(most(uniform), 3);
  const at::Tensor whole = random::randint(kMany, -2, 3);
  EXPECT_EQ(whole.scalar_type(), at::kInt);
  for (int value = -2; value < 3; ++value) EXPECT_NEAR(mean(whole == value), 0.2, 0.02) << value;
  const at::Tensor heads = random::binomial(kMany, at::tensor(10.0), at::tensor(0.3));
  EXPECT_NEAR(mean(heads), 3, 0.05);
  EXPECT_NEAR(deviation(heads), 1.449, 0.05);
  const at::Tensor beta = random::beta(kMany, 2, 3);
  EXPECT_NEAR(mean(beta), 0.4, 0.01);
  EXPECT_NEAR(deviation(beta), 0.2, 0.01);
  const at::Tensor gamma = random::gamma(kMany, 4);
  EXPECT_NEAR(mean(gamma), 4, 0.1);
  EXPECT_NEAR(deviation(gamma), 2, 0.1);
}

TEST(RandomTest, ClassesComeByTheirProbability) {
  const at::Tensor logits = at::tensor({0.1, 0.2, 0.7}).log().unsqueeze(0);
  const at::Tensor drawn = random::categorical(logits, 20000, 5);
  EXPECT_EQ(drawn.sizes(), (std::vector<int64_t>{1, 20000}));
  EXPECT_NEAR(mean(drawn == 2), 0.7, 0.02);
  EXPECT_NEAR(mean(drawn == 0), 0.1, 0.02);
}

TEST(RandomTest, DropoutKeepsTheMean) {
  const at::Tensor y = random::dropout(at::ones({20000}), 0.4, 6);
  EXPECT_NEAR(mean(y == 0), 0.4, 0.02);
  EXPECT_NEAR(mean(y), 1, 0.03);
}

TEST(RandomTest, ShuffleKeepsParts) {
  const at::Tensor x = at::tensor({0, 1, 2, 3, 4, 5, 6, 7}).view({4, 2});
  const at::Tensor y = random::shuffle(x, 0, 7);
  EXPECT_TRUE((y.select(1, 1) - y.select(1, 0) == 1).all().item<bool>());
  EXPECT_TRUE(std::get<0>(y.select(1, 0).sort()).equal(x.select(1, 0)));
}

TEST(RandomTest, ASeedGivesTheSameAgain) {
  const random::RandomOptions seeded = {.seed = 3};
  EXPECT_TRUE(random::normal({5}, 0, 1, seeded).equal(random::normal({5}, 0, 1, seeded)));
  EXPECT_FALSE(random::normal({5}).equal(random::normal({5})));
  at::manual_seed(1);
  const at::Tensor first = random::uniform({5});
  at::manual_seed(1);
  EXPECT_TRUE(random::uniform({5}).equal(first));
}

TEST(RandomTest, BadBoundsAreRefused) {
  expect_error_containing([] { random::randint({2}, 3, 3); }, ErrorCode::kInvalidArgument,
                          "got minval 3 and maxval 3");
  expect_error_containing([] { random::uniform({2}, 3, 2); }, ErrorCode::kInvalidArgument,
                          "expected the first to be no larger");
  expect_error_containing([] { random::dropout(at::ones({2}), 1); }, ErrorCode::kInvalidArgument,
                          "got rate 1");
  expect_error_containing([] { random::categorical(at::ones({2}), 1); },
                          ErrorCode::kInvalidArgument, "expected [batch, classes]");
}

}  // namespace
}  // namespace strata::keras
