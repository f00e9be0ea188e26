#include <memory>
#include <stdexcept>
#include <thread>

#include "data/elements.h"

namespace strata::data {
namespace {

// A generator's dataset that counts how often an element is mapped.
Dataset counted(int64_t n, std::shared_ptr<int> calls) {
  return counting_generator(n).map([calls = std::move(calls)](Example e) {
    ++*calls;
    return e;
  });
}

TEST(CacheTest, ReadsItsInputOnce) {
  const auto calls = std::make_shared<int>(0);
  const Dataset dataset = counted(4, calls).cache();
  const std::vector<int64_t> expected = {0, 1, 2, 3};
  EXPECT_EQ(values_of(dataset, 0, 2).size(), 2u);  // a part
  EXPECT_EQ(*calls, 2);
  for (int64_t epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(values_of(dataset, epoch), expected);
  EXPECT_EQ(values_of(dataset.repeat(2).skip(5)), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(*calls, 4);
  EXPECT_EQ(dataset.cardinality(), Dataset::kUnknown);
}

TEST(CacheTest, FreezesAShuffleBelow) {
  for (const Dataset& source : {Dataset::range(30), counting_generator(30)}) {
    const Dataset shuffled = source.shuffle(30);
    const Dataset frozen = shuffled.cache();
    EXPECT_EQ(values_of(frozen, 5), values_of(shuffled, 0));  // whatever epoch comes first
    EXPECT_EQ(values_of(frozen, 6), values_of(shuffled, 0));
    EXPECT_NE(values_of(frozen.shuffle(30), 5), values_of(frozen.shuffle(30), 6));
  }
}

TEST(CacheTest, PositionsHoldInAFreshProcess) {
  Iterator first = counting_generator(9).shuffle(4).cache().iterator(2);
  for (int i = 0; i < 5; ++i) (void)first.next();
  Iterator second = counting_generator(9).shuffle(4).cache().iterator(0);
  second.restore(first.position());
  EXPECT_EQ(describe_rest(second), describe_rest(first));
}

TEST(CacheTest, AnErrorLeavesNoGap) {
  const auto failures_left = std::make_shared<int>(1);
  const Dataset dataset = counting_generator(3).map([failures_left](Example e) {
    if (e.x().item<int64_t>() == 1 && (*failures_left)-- > 0) throw std::runtime_error("once");
    return e;
  });
  const Dataset cached = dataset.cache();
  Iterator iterator = cached.iterator(0);
  (void)iterator.next();
  EXPECT_THROW((void)iterator.next(), std::runtime_error);
  EXPECT_EQ(values_of(cached), (std::vector<int64_t>{0, 1, 2}));
}

TEST(CacheTest, ReportsChangesInPlace) {
  const Dataset dataset = counting_generator(2).cache();
  for (const Example& element : dataset) element.x().add_(1);
  expect_error(ErrorCode::kFailedPrecondition, {"cache: element 0 was changed in place"},
               [&] { (void)values_of(dataset); });
}

TEST(CacheTest, IsSharedByThreads) {
  const Dataset dataset = counting_generator(300).cache();
  std::vector<std::vector<int64_t>> seen(3);
  std::vector<std::thread> threads;
  for (auto& values : seen) threads.emplace_back([&] { values = values_of(dataset); });
  for (auto& thread : threads) thread.join();
  for (const auto& values : seen) EXPECT_EQ(values, values_of(Dataset::range(300)));
}

}  // namespace
}  // namespace strata::data
