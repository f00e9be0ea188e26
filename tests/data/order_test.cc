#include <limits>

#include "data/elements.h"

namespace strata::data {
namespace {

using Longs = std::vector<int64_t>;

// Each over rows (numbers move) and over a generator (elements move).
class OrderTest : public testing::TestWithParam<bool> {
 protected:
  static Dataset count_to(int64_t n) {
    return GetParam() ? Dataset::range(n) : counting_generator(n);
  }
};

INSTANTIATE_TEST_SUITE_P(Sources, OrderTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "rows" : "elements"; });

TEST_P(OrderTest, TakeEndsEarly) {
  EXPECT_EQ(values_of(count_to(5).take(2)), (Longs{0, 1}));
  EXPECT_EQ(values_of(count_to(2).take(5)), (Longs{0, 1}));
  EXPECT_EQ(values_of(count_to(3).take(0)), Longs{});
  EXPECT_EQ(values_of(count_to(3).take(-1)), (Longs{0, 1, 2}));
}

TEST_P(OrderTest, SkipLeavesOutTheFirst) {
  EXPECT_EQ(values_of(count_to(5).skip(2)), (Longs{2, 3, 4}));
  EXPECT_EQ(values_of(count_to(2).skip(5)), Longs{});
  EXPECT_EQ(values_of(count_to(2).skip(0)), (Longs{0, 1}));
  EXPECT_EQ(values_of(count_to(2).skip(-1)), Longs{});
  EXPECT_EQ(values_of(count_to(9).skip(2).skip(3).take(3).skip(1)), (Longs{6, 7}));
}

TEST_P(OrderTest, ShardTakesEveryNth) {
  EXPECT_EQ(values_of(count_to(7).shard(3, 0)), (Longs{0, 3, 6}));
  EXPECT_EQ(values_of(count_to(7).shard(3, 1)), (Longs{1, 4}));
  EXPECT_EQ(values_of(count_to(7).shard(3, 2)), (Longs{2, 5}));
  EXPECT_EQ(values_of(count_to(1).shard(3, 2)), Longs{});
  EXPECT_EQ(values_of(count_to(3).shard(1, 0)), (Longs{0, 1, 2}));
  EXPECT_EQ(values_of(count_to(12).shard(2, 1).shard(3, 1)), (Longs{3, 9}));
}

TEST_P(OrderTest, RepeatStartsOver) {
  EXPECT_EQ(values_of(count_to(2).repeat(3)), (Longs{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(values_of(count_to(2).repeat(0)), Longs{});
  EXPECT_EQ(values_of(count_to(2).repeat(), 0, 5), (Longs{0, 1, 0, 1, 0}));
  EXPECT_EQ(values_of(count_to(3).repeat().skip(4), 0, 3), (Longs{1, 2, 0}));
  EXPECT_EQ(values_of(count_to(3).repeat(2).skip(4)), (Longs{1, 2}));
  EXPECT_EQ(values_of(count_to(3).repeat(2).skip(7)), Longs{});
}

TEST_P(OrderTest, EndlessRepeatOfNothingEnds) {
  EXPECT_EQ(values_of(count_to(0).repeat()), Longs{});
  EXPECT_EQ(values_of(count_to(3).skip(3).repeat().skip(2)), Longs{});
}

// Rounds differ: without it, the round after the empty one would come.
TEST_P(OrderTest, ARepeatThatHasEndedStaysSoBehindARestore) {
  const Dataset some = count_to(8).shuffle(8, {.seed = 3}).take_while([](const Example& element) {
    return element[0].item<int64_t>() > 2;
  });
  Iterator iterator = some.repeat().iterator();
  while (iterator.next()) {
  }
  Iterator restored = some.repeat().iterator();
  restored.restore(iterator.position());
  EXPECT_EQ(restored.next(), std::nullopt);
}

TEST(CardinalityTest, IsKnownWithoutReading) {
  constexpr auto kInfinite = Dataset::kInfinite;
  constexpr auto kUnknown = Dataset::kUnknown;
  const Dataset seven = Dataset::range(7);
  const Dataset endless = seven.repeat();
  const Dataset unknown = counting_generator(7);
  const Dataset none = Dataset::range(0);

  EXPECT_EQ(seven.take(3).cardinality(), 3);
  EXPECT_EQ(seven.take(9).cardinality(), 7);
  EXPECT_EQ(seven.take(-1).cardinality(), 7);
  EXPECT_EQ(endless.take(9).cardinality(), 9);
  EXPECT_EQ(unknown.take(9).cardinality(), kUnknown);
  EXPECT_EQ(unknown.take(0).cardinality(), 0);
  EXPECT_EQ(seven.skip(3).cardinality(), 4);
  EXPECT_EQ(seven.skip(9).cardinality(), 0);
  EXPECT_EQ(endless.skip(9).cardinality(), kInfinite);
  EXPECT_EQ(endless.skip(-1).cardinality(), 0);
  EXPECT_EQ(unknown.skip(9).cardinality(), kUnknown);
  EXPECT_EQ(seven.shard(3, 0).cardinality(), 3);
  EXPECT_EQ(seven.shard(3, 1).cardinality(), 2);
  EXPECT_EQ(endless.shard(3, 1).cardinality(), kInfinite);
  EXPECT_EQ(seven.repeat(3).cardinality(), 21);
  EXPECT_EQ(seven.repeat(0).cardinality(), 0);
  EXPECT_EQ(endless.cardinality(), kInfinite);
  EXPECT_EQ(endless.repeat(3).cardinality(), kInfinite);
  EXPECT_EQ(unknown.repeat().cardinality(), kUnknown);
  EXPECT_EQ(unknown.repeat(2).cardinality(), kUnknown);
  EXPECT_EQ(none.repeat().cardinality(), 0);
  EXPECT_EQ(seven.repeat(std::numeric_limits<int64_t>::max()).cardinality(), kUnknown);
  EXPECT_EQ(seven.shuffle(3).cache().prefetch().map([](Example e) { return e; }).cardinality(), 7);
}

TEST(OrderErrorTest, NamesTheArgument) {
  const Dataset dataset = Dataset::range(3);
  expect_error(ErrorCode::kInvalidArgument, {"take: got count -2"},
               [&] { (void)dataset.take(-2); });
  expect_error(ErrorCode::kInvalidArgument, {"skip: got count -2"},
               [&] { (void)dataset.skip(-2); });
  expect_error(ErrorCode::kInvalidArgument, {"repeat: got count -2"},
               [&] { (void)dataset.repeat(-2); });
  expect_error(ErrorCode::kInvalidArgument, {"shard: got index 3 of 3 shards"},
               [&] { (void)dataset.shard(3, 3); });
  expect_error(ErrorCode::kInvalidArgument, {"shard: got index 0 of 0 shards"},
               [&] { (void)dataset.shard(0, 0); });
  expect_error(ErrorCode::kInvalidArgument, {"shard: got index -1"},
               [&] { (void)dataset.shard(3, -1); });
}

}  // namespace
}  // namespace strata::data
