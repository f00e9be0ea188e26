#include "strata/data/random_numbers.h"

#include <cmath>
#include <set>

#include "data/elements.h"
#include "data/random.h"

namespace strata::data {
namespace {

TEST(RandomNumbersTest, DependOnEveryPartOfTheKey) {
  std::set<uint64_t> firsts;
  for (uint64_t i = 0; i < 100; ++i) {
    firsts.insert(RandomNumbers({.seed = i + 1}).bits());
    firsts.insert(RandomNumbers({.epoch = i + 1}).bits());
    firsts.insert(RandomNumbers({.index = i + 1}).bits());
    firsts.insert(RandomNumbers({.stage = i + 1}).bits());
    // Nor are they those of a shuffle.
    firsts.insert(detail::RandomStream(0, 0, 0).bits(i));
  }
  EXPECT_EQ(firsts.size(), 500u);
  RandomNumbers a({.seed = 3, .index = 8}), b({.seed = 3, .index = 8});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(a.bits(), b.bits());
}

// Published results depend on them.
TEST(RandomNumbersTest, NeverChange) {
  RandomNumbers random({.seed = 1, .epoch = 2, .index = 3, .stage = 4});
  std::vector<uint64_t> below;
  for (int i = 0; i < 6; ++i) below.push_back(random.below(1000));
  EXPECT_EQ(below, (std::vector<uint64_t>{771, 973, 88, 464, 406, 924}));
}

// Means and variances within five standard deviations; the seeds are fixed.
TEST(RandomNumbersTest, HaveTheirDistributions) {
  constexpr int kCount = 20000;
  double sum = 0, normal_sum = 0, normal_squares = 0;
  int heads = 0;
  std::vector<int> counts(7);
  for (int i = 0; i < kCount; ++i) {
    RandomNumbers random({.index = static_cast<uint64_t>(i)});
    const double uniform = random.uniform(-1, 3);
    EXPECT_TRUE(uniform >= -1 && uniform < 3);
    sum += uniform;
    heads += random.bernoulli(0.25) ? 1 : 0;
    ++counts[random.below(7)];
    const double normal = random.normal(1, 2);
    normal_sum += normal;
    normal_squares += (normal - 1) * (normal - 1);
  }
  const double root = std::sqrt(kCount);
  EXPECT_NEAR(sum / kCount, 1, 5 * 4 / std::sqrt(12) / root);
  EXPECT_NEAR(heads / double{kCount}, 0.25, 5 * 0.433 / root);
  EXPECT_NEAR(normal_sum / kCount, 1, 5 * 2 / root);
  EXPECT_NEAR(normal_squares / kCount, 4, 5 * 4 * std::sqrt(2) / root);
  for (const int count : counts) EXPECT_NEAR(count / double{kCount}, 1 / 7., 5 * 0.35 / root);
  EXPECT_FALSE(RandomNumbers({}).bernoulli(0));
  EXPECT_TRUE(RandomNumbers({}).bernoulli(1));
  expect_error(ErrorCode::kInvalidArgument, {"below: got bound 0"},
               [] { (void)RandomNumbers({}).below(0); });
}

// Two maps of one chain draw different numbers.
TEST(RandomNumbersTest, MapsOfAChainDiffer) {
  const auto draw = [](Example e, const ElementKey& key) {
    e.fields.push_back(longs({static_cast<int64_t>(RandomNumbers(key).below(1 << 30))}));
    return e;
  };
  const Example element = *Dataset::range(1).map(draw).map(draw).iterator(0).next();
  EXPECT_NE(element[1].item<int64_t>(), element[2].item<int64_t>());
}

}  // namespace
}  // namespace strata::data
