#include "strata/keras/ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include "strata/keras/model.h"
#include "support/expect_error.h"

namespace strata::keras {
namespace {

/// What a model of one input makes of `x`.
at::Tensor run(const SymbolicTensor& input, const SymbolicTensor& output, const at::Tensor& x) {
  return Model(input, output).call({x}, Call{})[0];
}

TEST(OpsTest, OperatorsTakeTensorsAndNumbers) {
  const SymbolicTensor a = Input({3});
  const SymbolicTensor b = Input({3});
  const Model model({a, b}, {a + b, a - 1.0, 2 - a, a * b, a / b, 1.0 / b, -a});
  const at::Tensor x = at::rand({2, 3}) + 1;
  const at::Tensor y = at::rand({2, 3}) + 1;
  const Tensors got = model.call({x, y}, Call{});
  const Tensors expected = {x + y, x - 1, 2 - x, x * y, x / y, 1 / y, -x};
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(expected[i])) << i;
}

TEST(OpsTest, SizesThatAreNotKnownStayUnknown) {
  const SymbolicTensor x = Input({kNone, 4});
  EXPECT_EQ((x + 1.0).shape(), (Shape{kNone, kNone, 4}));
  EXPECT_EQ(ops::mean(x, {1}).shape(), (Shape{kNone, 4}));
  EXPECT_EQ(ops::mean(x, {-1}, true).shape(), (Shape{kNone, kNone, 1}));
  EXPECT_EQ(ops::sum(x).shape(), Shape{});
  EXPECT_EQ(ops::reshape(x, {-1, 2, 2}).shape(), (Shape{kNone, 2, 2}));
  EXPECT_EQ(ops::transpose(x).shape(), (Shape{4, kNone, kNone}));
  EXPECT_EQ(ops::expand_dims(x, -1).shape(), (Shape{kNone, kNone, 4, 1}));
  EXPECT_EQ(ops::matmul(x, ops::transpose(x, {0, 2, 1})).shape(), (Shape{kNone, kNone, kNone}));
  EXPECT_EQ(ops::concatenate({x, x}, -1).shape(), (Shape{kNone, kNone, 8}));
  EXPECT_EQ(ops::get_item(x, {ops::Slice(), ops::Slice{1, 3, {}}}).shape(),
            (Shape{kNone, kNone, 4}));
  EXPECT_EQ(ops::get_item(x, {ops::Ellipsis{}, ops::Slice{0, 4, 3}, ops::NewAxis{}}).shape(),
            (Shape{kNone, kNone, 2, 1}));
}

TEST(OpsTest, GetItemIndexesAsPython) {
  const SymbolicTensor x = Input({5, 4});
  const at::Tensor value = at::arange(40).to(at::kFloat).reshape({2, 5, 4});
  using ops::Slice;
  EXPECT_TRUE(run(x, ops::get_item(x, {Slice(), -1}), value).equal(value.select(1, 4)));
  EXPECT_TRUE(
      run(x, ops::get_item(x, {Slice(), Slice{-4, -1, 2}}), value).equal(value.slice(1, 1, 4, 2)));
  EXPECT_TRUE(run(x, ops::get_item(x, {ops::Ellipsis{}, 2}), value).equal(value.select(2, 2)));
  EXPECT_TRUE(run(x, ops::get_item(x, {Slice(), ops::NewAxis{}, Slice{3, 1, {}}}), value)
                  .equal(value.slice(1, 3, 3).unsqueeze(1)));
}

TEST(OpsTest, DtypesFollowKeras) {
  const SymbolicTensor tokens = Input({3}, {.dtype = at::kInt});
  EXPECT_EQ((tokens + 1).dtype(), at::kInt);
  EXPECT_EQ((tokens / 2).dtype(), at::kFloat);
  EXPECT_EQ(ops::mean(tokens, {1}).dtype(), at::kFloat);
  EXPECT_EQ(ops::operation("NotEqual", {tokens, 0}).dtype(), at::kBool);
  EXPECT_EQ(ops::cast(tokens, at::kHalf).dtype(), at::kHalf);
  const at::Tensor x = at::arange(6).to(at::kInt).reshape({2, 3});
  EXPECT_EQ(run(tokens, tokens + 1, x).scalar_type(), at::kInt);
  EXPECT_EQ(run(tokens, tokens / 2, x).scalar_type(), at::kFloat);
}

TEST(OpsTest, WhatDoesNotFitIsSaid) {
  const SymbolicTensor x = Input({3});
  expect_error_containing([&] { x + Input({4}); }, ErrorCode::kInvalidArgument,
                          "got shapes (None, 3) and (None, 4); expected ones that broadcast");
  expect_error_containing(
      [&] {
        ops::get_item(x, {ops::Slice(), 3});
      },
      ErrorCode::kOutOfRange, "got index 3 for an axis of size 3");
  expect_error_containing(
      [&] { ops::operation("Fancy", {x}); }, ErrorCode::kUnimplemented,
      "is operation Fancy, which is unknown to strata; register_operation(\"Fancy\", ...) "
      "adds it; known operations: Add");
  expect_error_containing(
      [&] {
        ops::operation("Mean", {x}, {{"where", true}});
      },
      ErrorCode::kUnimplemented, "got option 'where' = true");
  expect_error_containing([&] { ops::operation("Exp", {1.0}); }, ErrorCode::kInvalidArgument,
                          "got no tensor");
}

}  // namespace
}  // namespace strata::keras
