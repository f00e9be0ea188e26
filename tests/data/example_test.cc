#include "strata/data/example.h"

#include <ATen/ops/zeros.h>

#include "data/elements.h"

namespace strata::data {
namespace {

TEST(ExampleTest, NamesItsFields) {
  const Example example{longs({1, 2}), longs({3, 4}), longs({5, 6})};
  EXPECT_EQ(example.size(), 3);
  EXPECT_TRUE(example.x().is_same(example[0]));
  EXPECT_TRUE(example.y().is_same(example[1]));
  EXPECT_TRUE(example.weight().is_same(example[2]));
  EXPECT_EQ(example.num_rows(), 2);
}

TEST(ExampleTest, MissingFieldSaysWhichAndHowMany) {
  const Example example{longs({1})};
  expect_error(ErrorCode::kOutOfRange, {"field 1 (y)", "has 1 field;"}, [&] { (void)example.y(); });
  expect_error(ErrorCode::kOutOfRange, {"field 2 (weight)"}, [&] { (void)example.weight(); });
  expect_error(ErrorCode::kOutOfRange, {"field 7"}, [&] { (void)example[7]; });
  expect_error(ErrorCode::kOutOfRange, {"field 0 (x)", "0 fields"}, [] { (void)Example().x(); });
}

TEST(ExampleTest, RowsMustAgree) {
  expect_error(ErrorCode::kInvalidArgument, {"without fields"}, [] { (void)Example().num_rows(); });
  expect_error(ErrorCode::kInvalidArgument, {"a scalar in field 0"},
               [] { (void)Example{at::zeros({})}.num_rows(); });
  expect_error(ErrorCode::kInvalidArgument, {"undefined tensor in field 0"},
               [] { (void)Example{at::Tensor()}.num_rows(); });
  expect_error(ErrorCode::kInvalidArgument, {"3 rows in field 1", "2 in field 0"}, [] {
    (void)Example{longs({1, 2}), longs({1, 2, 3})}.num_rows();
  });
}

TEST(ExampleTest, MapsEachField) {
  const Example doubled =
      Example{longs({1}), longs({2})}.map([](const at::Tensor& t) { return t.mul(2); });
  EXPECT_EQ(describe(doubled), "Long[1](2) Long[1](4)");
}

}  // namespace
}  // namespace strata::data
