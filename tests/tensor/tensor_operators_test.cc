// The operators of strata/tensor/tensor.h give what at::Tensor's methods do. libtorch's own operators
// are not declared here: <ATen/TensorOperators.h> is not included.
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <sstream>

#include "strata/tensor/tensor.h"

namespace strata {
namespace {

// Stands where a tensor does, as a Variable.
struct Holder {
  at::Tensor tensor;
  operator at::Tensor() const { return tensor; }  // NOLINT
};

void expect_equal(const at::Tensor& got, const at::Tensor& expected) {
  EXPECT_EQ(got.scalar_type(), expected.scalar_type());
  EXPECT_TRUE(at::equal(got, expected)) << got << "\n" << expected;
}

TEST(TensorOperatorsTest, BetweenTensorsTheyAreTheMethods) {
  const at::Tensor x = at::tensor({-1.5, 2.0, 7.0}), y = at::tensor({2.0, 2.0, -3.0});
  expect_equal(x + y, x.add(y));
  expect_equal(x - y, x.sub(y));
  expect_equal(x * y, x.mul(y));
  expect_equal(x / y, x.div(y));
  expect_equal(x % y, x.remainder(y));
  expect_equal(x < y, x.lt(y));
  expect_equal(x <= y, x.le(y));
  expect_equal(x > y, x.gt(y));
  expect_equal(x >= y, x.ge(y));
  expect_equal(x == y, x.eq(y));
  expect_equal(x != y, x.ne(y));
  const at::Tensor a = at::tensor({12, 5, 0}), b = at::tensor({10, 3, 6});
  expect_equal(a & b, at::tensor({8, 1, 0}));
  expect_equal(a | b, at::tensor({14, 7, 6}));
  expect_equal(a ^ b, at::tensor({6, 6, 6}));
}

TEST(TensorOperatorsTest, ANumberIsOnEitherSide) {
  const at::Tensor x = at::tensor({1.0, 2.0, 4.0});
  expect_equal(x + 1, at::tensor({2.0, 3.0, 5.0}));
  expect_equal(1 + x, x + 1);
  expect_equal(x - 1, at::tensor({0.0, 1.0, 3.0}));
  expect_equal(1 - x, at::tensor({0.0, -1.0, -3.0}));
  expect_equal(x * 0.5, at::tensor({0.5, 1.0, 2.0}));
  expect_equal(0.5 * x, x * 0.5);
  expect_equal(x / 2, at::tensor({0.5, 1.0, 2.0}));
  expect_equal(2 / x, at::tensor({2.0, 1.0, 0.5}));
  expect_equal(x % 3, at::tensor({1.0, 2.0, 1.0}));
  expect_equal(5 % x, at::tensor({0.0, 1.0, 1.0}));
  expect_equal(2 < x, x > 2);
  expect_equal(2 <= x, x >= 2);
  expect_equal(2 > x, x < 2);
  expect_equal(2 >= x, x <= 2);
  expect_equal(2 == x, x == 2);
  expect_equal(2 != x, x != 2);
  const at::Tensor bits = at::tensor({12, 5, 0});
  expect_equal(6 & bits, at::tensor({4, 4, 0}));
  expect_equal(6 | bits, bits | 6);
  expect_equal(6 ^ bits, bits ^ 6);
}

TEST(TensorOperatorsTest, ALeftNumberKeepsTheLayout) {
  const at::Tensor x = at::tensor({1.0, 2.0, 4.0, 8.0}).view({2, 2}).t();
  EXPECT_EQ((1 - x).strides(), x.strides());
  EXPECT_EQ((1 / x).strides(), x.strides());
}

TEST(TensorOperatorsTest, WhatConvertsToATensorIsOnEitherSide) {
  const at::Tensor x = at::tensor({1.0, 2.0});
  const Holder two{at::tensor({2.0, 2.0})};
  expect_equal(two * x, at::tensor({2.0, 4.0}));
  expect_equal(x - two, at::tensor({-1.0, 0.0}));
  expect_equal(x == two, x.eq(two.tensor));
}

TEST(TensorOperatorsTest, ProgramsSayTorchTensorAndPrintIt) {
  const torch::Tensor x = at::tensor({1.0, 2.0});
  std::ostringstream text;
  text << x;
  EXPECT_NE(text.str().find("CPUDoubleType{2}"), std::string::npos) << text.str();
}

}  // namespace
}  // namespace strata
