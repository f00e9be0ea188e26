#include "core/checked_size.h"

#include <gtest/gtest.h>

#include <limits>

namespace strata::detail {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

TEST(CheckedSizeTest, SumsThatFitAreSums) {
  EXPECT_EQ(checked_sum<int64_t>(3, 4), 7);
  EXPECT_EQ(checked_sum<int64_t>(kLargest, 0), kLargest);
  EXPECT_EQ(checked_sum<uint8_t>(200, 55), 255);
}

TEST(CheckedSizeTest, SumsThatDoNotFitAreEmpty) {
  EXPECT_EQ(checked_sum<int64_t>(kLargest, 1), std::nullopt);
  EXPECT_EQ(checked_sum<int64_t>(-1, 5), std::nullopt);
  EXPECT_EQ(checked_sum<int64_t>(5, -1), std::nullopt);
  EXPECT_EQ(checked_sum<uint8_t>(200, 56), std::nullopt);
}

TEST(CheckedSizeTest, ProductsThatFitAreProducts) {
  EXPECT_EQ(checked_product<int64_t>({}), 1);
  EXPECT_EQ(checked_product<int64_t>({7}), 7);
  EXPECT_EQ(checked_product<int64_t>({2, 3, 5}), 30);
  EXPECT_EQ(checked_product<int64_t>({int64_t{1} << 31, int64_t{1} << 31}), int64_t{1} << 62);
}

TEST(CheckedSizeTest, ProductsThatWrapToZeroAreEmpty) {
  EXPECT_EQ(checked_product<int64_t>({int64_t{1} << 62, 4}), std::nullopt);
  EXPECT_EQ(checked_product<uint64_t>({uint64_t{1} << 62, 4}), std::nullopt);
  EXPECT_EQ(checked_product<int64_t>({-1, -1}), std::nullopt);
}

TEST(CheckedSizeTest, AZeroHidesNoOverflowOfTheOtherSizes) {
  EXPECT_EQ(checked_product<int64_t>({5, 0, 3}), 0);
  EXPECT_EQ(checked_product<int64_t>({0, int64_t{1} << 62, 4}), std::nullopt);
  EXPECT_EQ(checked_product<int64_t>({int64_t{1} << 62, 4, 0}), std::nullopt);
}

TEST(CheckedSizeTest, RoundsUpToAMultipleUnlessThatDoesNotFit) {
  EXPECT_EQ(checked_round_up<int64_t>(0, 64), 0);
  EXPECT_EQ(checked_round_up<int64_t>(1, 64), 64);
  EXPECT_EQ(checked_round_up<int64_t>(64, 64), 64);
  EXPECT_EQ(checked_round_up<int64_t>(kLargest - 62, 64), std::nullopt);
  EXPECT_EQ(checked_round_up<int64_t>(-1, 64), std::nullopt);
}

TEST(CheckedSizeTest, ARangeLiesWithinWhatHoldsItWhole) {
  EXPECT_TRUE(lies_within<int64_t>(0, 0, 0));
  EXPECT_TRUE(lies_within<int64_t>(3, 4, 7));
  EXPECT_FALSE(lies_within<int64_t>(3, 5, 7));
  EXPECT_FALSE(lies_within<int64_t>(kLargest, 1, kLargest));
  EXPECT_FALSE(lies_within<int64_t>(-1, 2, 7));
  EXPECT_FALSE(lies_within<int64_t>(1, -1, 7));
  EXPECT_FALSE(lies_within<uint64_t>(8, 0, 7));
}

}  // namespace
}  // namespace strata::detail
