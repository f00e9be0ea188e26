#include "data/transforms/shuffle.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "data/elements.h"

namespace strata::data {
namespace {

using Longs = std::vector<int64_t>;

Longs sorted(Longs values) {
  std::sort(values.begin(), values.end());
  return values;
}

Longs iota(int64_t n) {
  Longs values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(ShuffleTest, PermutesEverything) {
  for (const int64_t n : {0, 1, 2, 7, 1000}) {
    for (const int64_t buffer : {1, 2, 6, 7, 8, 5000}) {
      EXPECT_EQ(sorted(values_of(Dataset::range(n).shuffle(buffer))), iota(n))
          << n << " " << buffer;
    }
  }
}

// Saved positions and published results depend on these orders.
TEST(ShuffleTest, OrdersNeverChange) {
  EXPECT_EQ(values_of(Dataset::range(8).shuffle(8, {.seed = 1})), (Longs{2, 7, 6, 4, 5, 3, 1, 0}));
  EXPECT_EQ(values_of(Dataset::range(8).shuffle(3, {.seed = 1})), (Longs{1, 2, 3, 5, 4, 7, 6, 0}));
}

TEST(ShuffleTest, ABufferOfOneKeepsTheOrder) {
  EXPECT_EQ(values_of(Dataset::range(5).shuffle(1)), iota(5));
}

TEST(ShuffleTest, ASmallBufferIsAWindow) {
  // Element i cannot come before i - (buffer - 1).
  const Longs order = values_of(Dataset::range(200).shuffle(10));
  for (size_t at = 0; at < order.size(); ++at) EXPECT_LE(order[at], static_cast<int64_t>(at) + 9);
}

TEST(ShuffleTest, KeyedBySeedAndEpoch) {
  const Dataset dataset = Dataset::range(50).shuffle(50, {.seed = 3});
  EXPECT_EQ(values_of(dataset, 4), values_of(dataset, 4));
  EXPECT_NE(values_of(dataset, 4), values_of(dataset, 5));
  EXPECT_NE(values_of(dataset, 4), values_of(Dataset::range(50).shuffle(50, {.seed = 4}), 4));
}

TEST(ShuffleTest, ReshufflesUnlessToldNotTo) {
  const Dataset fixed = Dataset::range(20).shuffle(20, {.reshuffle_each_iteration = false});
  EXPECT_EQ(values_of(fixed, 0), values_of(fixed, 1));
  const Longs twice = values_of(fixed.repeat(2));
  EXPECT_TRUE(std::equal(twice.begin(), twice.begin() + 20, twice.begin() + 20));

  const Longs fresh = values_of(Dataset::range(20).shuffle(20).repeat(2));
  EXPECT_FALSE(std::equal(fresh.begin(), fresh.begin() + 20, fresh.begin() + 20));
}

TEST(ShuffleTest, RoundsOfARepeatAreEpochs) {
  const Dataset once = Dataset::range(10).shuffle(10);
  Longs epochs;
  for (int64_t epoch = 6; epoch < 9; ++epoch) {
    const Longs order = values_of(once, epoch);
    epochs.insert(epochs.end(), order.begin(), order.end());
  }
  EXPECT_EQ(values_of(once.repeat(3), 2), epochs);
  EXPECT_NE(values_of(once.repeat(), 0, 10), values_of(once.repeat(), 1, 10));
}

TEST(ShuffleTest, RowsAndElementsAreOrderedAlike) {
  for (const int64_t buffer : {3, 100})
    EXPECT_EQ(values_of(Dataset::range(40).shuffle(buffer)),
              values_of(counting_generator(40).shuffle(buffer)));
}

TEST(ShuffleTest, AShuffleOfAShuffleIsAnotherOne) {
  const Longs once = values_of(Dataset::range(64).shuffle(64));
  const Longs twice = values_of(Dataset::range(64).shuffle(64).shuffle(64));
  Longs squared;  // what using the same permutation twice would give
  for (const int64_t i : once) squared.push_back(once[static_cast<size_t>(i)]);
  EXPECT_EQ(sorted(twice), iota(64));
  EXPECT_NE(twice, once);
  EXPECT_NE(twice, squared);
}

// Chi-squared over where each of 6 elements lands in 6000 epochs: 25 degrees of freedom, 60 is 1 in
// 10^4; the seed is fixed.
TEST(ShuffleTest, FullBuffersAreUniform) {
  constexpr int64_t kElements = 6, kEpochs = 6000;
  const Dataset dataset =
      Dataset::range(kElements).shuffle(kElements, {.seed = 17}).batch(kElements);
  std::vector<int64_t> counts(kElements * kElements);
  std::set<Longs> orders;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Longs order = values_of(dataset, epoch);
    orders.insert(order);
    for (int64_t at = 0; at < kElements; ++at)
      ++counts[static_cast<size_t>(order[static_cast<size_t>(at)] * kElements + at)];
  }
  EXPECT_EQ(orders.size(), 720u);
  const double expected = double{kEpochs} / kElements;
  double chi_squared = 0;
  for (const int64_t count : counts) {
    const double off = static_cast<double>(count) - expected;
    chi_squared += off * off / expected;
  }
  EXPECT_LT(chi_squared, 60);
}

// Chunks of the input are forgotten once the buffer holds nothing of them.
TEST(ShuffleTest, LongRunsRestoreAnywhere) {
  for (const bool rows : {true, false}) {
    const Dataset dataset = (rows ? Dataset::range(9000) : counting_generator(9000)).shuffle(40);
    const Longs all = values_of(dataset, 1, 10000);
    for (const int64_t cut : {0, 1, 1023, 1024, 5000, 8985, 8999, 9000}) {
      Iterator first = dataset.iterator(1);
      for (int64_t i = 0; i < cut; ++i) ASSERT_TRUE(first.next());
      Iterator second = dataset.iterator(0);
      second.restore(Position::from_string(first.position().to_string()));
      for (int64_t i = cut; i < 9000; ++i) {
        // And again from what was restored.
        if (i % 3000 == 17) {
          const Position here = second.position();
          second.restore(here);
        }
        const auto element = second.next();
        ASSERT_TRUE(element);
        ASSERT_EQ(element->x().item<int64_t>(), all[static_cast<size_t>(i)]) << cut << " " << i;
      }
      EXPECT_FALSE(second.next());
    }
  }
}

TEST(ShuffleTest, PositionsOfOtherOrdersAreRejected) {
  const auto position_of = [](const Dataset& dataset) {
    Iterator iterator = dataset.iterator(0);
    (void)iterator.next();
    return iterator.position();
  };
  const Dataset dataset = Dataset::range(9).shuffle(4, {.seed = 1});
  const auto expect_bad = [&](const Position& position) {
    expect_error(ErrorCode::kInvalidArgument, {"restore: got", "same source and options"},
                 [&] { dataset.iterator(0).restore(position); });
  };
  expect_bad(position_of(Dataset::range(9).shuffle(5, {.seed = 1})));
  expect_bad(position_of(Dataset::range(9).shuffle(4, {.seed = 2})));
  expect_bad(position_of(Dataset::range(10).shuffle(4, {.seed = 1})));
}

TEST(ShuffleTest, DamagedPositionsAreRejected) {
  const Dataset dataset = Dataset::range(9).shuffle(4);
  Iterator iterator = dataset.iterator(0);
  (void)iterator.next();
  const Position good = iterator.position().children()[0];
  const auto expect_bad = [&](size_t number, int64_t value) {
    auto numbers = good.numbers();
    numbers[number] = value;
    const Position bad("iterator", {0}, {Position("shuffle", numbers, good.children())});
    expect_error(ErrorCode::kInvalidArgument, {"restore: got"}, [&] { iterator.restore(bad); });
  };
  expect_bad(0, -1);  // given
  expect_bad(0, 5);   // more than read
  expect_bad(1, 6);   // read more than the buffer holds
  expect_bad(2, 2);   // ended
  expect_bad(3, 1);   // first of a chunk
}

TEST(ShuffleTest, RejectsABufferOfNone) {
  expect_error(ErrorCode::kInvalidArgument, {"shuffle: got buffer_size 0"},
               [] { (void)Dataset::range(3).shuffle(0); });
}

TEST(RandomStreamTest, IsSplitMix64) {
  const detail::RandomStream stream(0, 0, 0);
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 1000; ++i) {
    seen.insert(stream.bits(i));
    EXPECT_LT(stream.below(7, i), 7u);
  }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_EQ(stream.below(1, 5), 0u);
  EXPECT_NE(detail::RandomStream(0, 1, 0).bits(0), detail::RandomStream(1, 0, 0).bits(0));
  EXPECT_NE(detail::RandomStream(0, 1, 0).bits(0), detail::RandomStream(0, 0, 1).bits(0));
}

}  // namespace
}  // namespace strata::data
