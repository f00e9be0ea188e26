// Batches of which only some parts' rows are made: what comes, the positions and the ends are those
// of whole batches that are cut; the maps before them are called for these rows alone.
#include "data/transforms/batch_slices.h"

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <semaphore>

#include "data/chains.h"
#include "data/elements.h"
#include "data/source.h"
#include "support/temp_folder.h"

namespace strata::data {
namespace {

using detail::BatchSlices;
using Numbers = std::vector<int64_t>;

/// Gives its input's batches, and lets nobody see what they are made of.
class OpaqueSource final : public detail::TransformSource {
 public:
  using TransformSource::TransformSource;

  std::unique_ptr<detail::ExampleStream> examples(uint64_t epoch) const override {
    return input().examples(epoch);
  }
  int64_t cardinality() const override { return input().cardinality(); }
  std::optional<int64_t> batch_size() const override { return input().batch_size(); }
};

bool can_be_made_partially(const Dataset& batches) {
  return batches.source()->with_slices(BatchSlices(3, {1})) != nullptr;
}
Dataset cut_partial(const Dataset& batches, const BatchSlices& parts) {
  EXPECT_TRUE(can_be_made_partially(batches));
  return Dataset(detail::make_split(batches.source(), parts));
}
Dataset cut_whole(const Dataset& batches, const BatchSlices& parts) {
  return Dataset(detail::make_split(std::make_shared<OpaqueSource>(batches.source()), parts));
}

struct Step {
  std::string element;  // or the error
  std::string position;
  friend bool operator==(const Step&, const Step&) = default;
};
void PrintTo(const Step& step, std::ostream* out) { *out << step.element << " " << step.position; }

constexpr size_t kLimit = 100;  // some datasets are endless

std::vector<Step> run(Iterator& iterator, size_t limit = kLimit) {
  std::vector<Step> steps;
  while (steps.size() < limit) {
    std::string text;
    try {
      const auto element = iterator.next();
      if (!element) break;
      text = describe(*element);
    } catch (const std::exception& error) {
      text = first_line(error);
    }
    steps.push_back({text, iterator.position().to_string()});
  }
  return steps;
}
std::vector<Step> run(const Dataset& dataset) {
  Iterator iterator = dataset.iterator(1);
  return run(iterator);
}

std::vector<std::string> elements_of(const std::vector<Step>& steps) {
  std::vector<std::string> elements;
  for (const Step& step : steps) elements.push_back(step.element);
  return elements;
}

/// What comes is the same, from the start and behind any position, and positions are.
void expect_the_same(const Dataset& batches, const BatchSlices& parts) {
  const Dataset whole = cut_whole(batches, parts);
  const Dataset partial = cut_partial(batches, parts);
  EXPECT_EQ(partial.cardinality(), whole.cardinality());
  EXPECT_EQ(partial.batch_size(), whole.batch_size());
  const std::vector<Step> expected = run(whole);
  std::vector<Step> steps = run(partial);
  ASSERT_EQ(elements_of(steps), elements_of(expected));
  const auto rest_of = [](const Dataset& dataset, const std::string& position, size_t limit) {
    Iterator restored = dataset.iterator(7);
    restored.restore(Position::from_string(position));
    return elements_of(run(restored, limit));
  };
  for (size_t i = 0; i < expected.size(); i += 1 + expected.size() / 3) {
    const std::string& position = expected[i].position;
    ASSERT_EQ(rest_of(partial, position, kLimit - i), rest_of(whole, position, kLimit - i))
        << position;
  }
  // Who was restored, as for a smaller last batch, may say otherwise that this is the end.
  if (!steps.empty() && steps.size() < kLimit) {
    EXPECT_EQ(rest_of(whole, steps.back().position, 1), std::vector<std::string>{});
    EXPECT_EQ(rest_of(partial, steps.back().position, 1), std::vector<std::string>{});
    steps.back().position = expected.back().position;
  }
  ASSERT_EQ(steps, expected);
}

TEST(BatchSlicesTest, EveryNumberOfRowsAndParts) {
  for (const int64_t rows : {0, 1, 5, 8, 13}) {
    for (const int64_t size : {1, 3, 4, 8}) {
      const Dataset in_memory = Dataset::range(rows);
      const Dataset made = counting_generator(rows);
      for (const Numbers& own : {Numbers{0}, Numbers{2}, Numbers{1, 2}, Numbers{0, 3}, Numbers{3},
                                 Numbers{0, 1, 2, 3}}) {
        SCOPED_TRACE(str_cat(rows, " rows by ", size, ", ", own.size(), " from ", own[0]));
        const BatchSlices parts(4, own);
        expect_the_same(in_memory.shuffle(5, {.seed = 3}).batch(size), parts);
        expect_the_same(made.batch(size), parts);
        expect_the_same(made.batch(size, {.drop_remainder = true}), parts);
      }
    }
  }
}

TEST(BatchSlicesTest, WhateverTheBatchIsMadeOf) {
  const test::TempFolder folder;
  // 0 but under `make soak`, which shuffles.
  const uint32_t first =
      GTEST_FLAG_GET(shuffle)
          ? static_cast<uint32_t>(testing::UnitTest::GetInstance()->random_seed()) * 10007u
          : 0;
  int tried = 0;
  for (uint32_t seed = first; seed < first + 200; ++seed) {
    const Chain chain = draw_chain(seed, static_cast<int>(seed % 2), {.folder = folder.path()});
    if (!chain.deterministic) continue;
    const Dataset batches = chain.dataset.batch(1 + seed % 7);
    SCOPED_TRACE(str_cat(chain.name, " seed ", seed));
    const std::vector<Step> whole = run(cut_whole(batches, BatchSlices(3)));
    // Who does not need a row that cannot be made, or stacked, sees no error.
    if (std::any_of(whole.begin(), whole.end(), [](const Step& step) {
          return step.element.find("[data]") != std::string::npos || step.element == "five";
        })) {
      continue;
    }
    expect_the_same(batches, BatchSlices(3, {int64_t{seed % 3}}));
    expect_the_same(batches, BatchSlices(3, {0, 2}));
    if (HasFailure()) return;
    ++tried;
  }
  EXPECT_GT(tried, 100);
}

TEST(BatchSlicesTest, BehindTheBatchWhateverGivesItAsItIs) {
  const Dataset batches = counting_generator(21).batch(4);
  expect_the_same(batches.prefetch(2), BatchSlices(3, {1}));
  expect_the_same(batches.repeat(2).take(9), BatchSlices(3, {1, 2}));
  expect_the_same(batches.skip(2).with_options({.deterministic = true}), BatchSlices(3, {0}));
  expect_the_same(batches.shuffle(3, {.seed = 2}).shard(2, 1), BatchSlices(3, {0, 2}));

  // These look at all rows, or at what others have.
  EXPECT_FALSE(can_be_made_partially(batches.map([](Example x) { return x; })));
  EXPECT_FALSE(can_be_made_partially(batches.filter([](const Example&) { return true; })));
  EXPECT_FALSE(can_be_made_partially(batches.cache()));
  EXPECT_FALSE(can_be_made_partially(batches.cache().repeat(2)));
  EXPECT_FALSE(can_be_made_partially(batches.ignore_errors()));
  EXPECT_FALSE(can_be_made_partially(batches.unbatch()));
  EXPECT_FALSE(can_be_made_partially(batches.rebatch({2})));
  EXPECT_FALSE(can_be_made_partially(batches.concatenate(batches)));
  EXPECT_FALSE(can_be_made_partially(Dataset::zip({batches, batches})));
  EXPECT_FALSE(can_be_made_partially(counting_generator(6).padded_batch(2)));
}

/// Counts the elements that come through.
class Counter {
 public:
  /// A random map, with so many threads or none.
  Dataset map(const Dataset& dataset, int64_t parallel_calls) const {
    return dataset.map(
        [count = count_](const Example& e, const ElementKey& key) {
          ++*count;
          return Example{e[0] * 1000 + static_cast<int64_t>(RandomNumbers(key).below(1000))};
        },
        {.num_parallel_calls = parallel_calls});
  }
  int64_t take() const { return count_->exchange(0); }

 private:
  std::shared_ptr<std::atomic<int64_t>> count_ = std::make_shared<std::atomic<int64_t>>(0);
};

using Chained = std::function<Dataset(const Counter&, int64_t parallel_calls)>;

/// How often the map is called for each of three workers, with 3, 3 and 2 of 8 replicas, in a pass
/// over `chained`; what they get is right.
Numbers calls(const Chained& chained, int64_t parallel_calls) {
  Numbers counts;
  for (const Numbers& own : {Numbers{0, 1, 2}, Numbers{3, 4, 5}, Numbers{6, 7}}) {
    const BatchSlices parts(8, own);
    const Counter counter, uncounted;
    const Dataset partial = cut_partial(chained(counter, parallel_calls), parts);
    EXPECT_EQ(run(partial), run(cut_whole(chained(uncounted, parallel_calls), parts)));
    counts.push_back(counter.take());
  }
  return counts;
}

bool is_even(const Example& e) { return e[0].item<int64_t>() % 2 == 0; }

TEST(BatchSlicesTest, AMapIsCalledForTheOwnRowsAlone) {
  const Numbers third = {12, 12, 8};  // of 4 batches of 8
  for (const int64_t calls_at_once : {0, 1, 3}) {
    SCOPED_TRACE(calls_at_once);
    const auto count = [&](const Chained& chained) { return calls(chained, calls_at_once); };
    EXPECT_EQ(count([](const Counter& c, int64_t n) {
                return c.map(Dataset::range(32).shuffle(10, {.seed = 1}), n).batch(8);
              }),
              third);
    EXPECT_EQ(count([](const Counter& c, int64_t n) {
                return c.map(counting_generator(64).filter(is_even).cache(), n).batch(8);
              }),
              third);
    // Two maps.
    EXPECT_EQ(count([](const Counter& c, int64_t n) {
                return c.map(c.map(Dataset::range(32), n), n).batch(8).prefetch(1);
              }),
              (Numbers{24, 24, 16}));
    // Behind what reads several sources in turn.
    EXPECT_EQ(count([](const Counter& c, int64_t n) {
                const Dataset files = Dataset::range(4).interleave(
                    [](const Example& e) {
                      const int64_t first = 8 * e[0].item<int64_t>();
                      return Dataset::range(first, first + 8);
                    },
                    {.cycle_length = 2, .num_parallel_calls = n});
                return c.map(files, n).batch(8);
              }),
              third);
    // Each epoch anew.
    EXPECT_EQ(count([](const Counter& c, int64_t n) {
                return c.map(Dataset::range(16), n).batch(8).repeat(2);
              }),
              third);
    // All is read to drop 5 rows; with threads, of these those that would be one's own are made.
    const Numbers dropped = count([](const Counter& c, int64_t n) {
      return c.map(Dataset::range(37), n).batch(8, {.drop_remainder = true});
    });
    EXPECT_EQ(dropped, (Numbers{12 + 3, 12 + 2, 8}));
  }
}

// A last batch of 5 has a row for each of the first 5 replicas: rows 0-2, 3 and 4, none. That it is
// smaller is known at its end.
TEST(BatchSlicesTest, ASmallerLastBatchIsReadTwice) {
  const auto chained = [](const Counter& c, int64_t n) {
    return c.map(Dataset::range(37), n).batch(8);
  };
  // First as of 8: 0-2, 3 and 4, none; and where there is none, the first shows what rows are like.
  EXPECT_EQ(calls(chained, 0), (Numbers{12 + 3 + 3, 12 + 2 + 2, 8 + 0 + 1}));
  EXPECT_EQ(calls(chained, 3), calls(chained, 0));
}

TEST(BatchSlicesTest, WhatStandsBetweenMapAndBatchMayNeedAllRows) {
  const Numbers all = {32, 32, 32};
  const auto count = [](auto between) {
    return calls([between](const Counter& c,
                           int64_t n) { return between(c.map(Dataset::range(32), n)).batch(8); },
                 0);
  };
  EXPECT_EQ(count([](const Dataset& d) { return d.filter([](const Example&) { return true; }); }),
            all);
  EXPECT_EQ(count([](const Dataset& d) { return d.shuffle(4); }), all);
  EXPECT_EQ(count([](const Dataset& d) { return d.cache(); }), all);
  EXPECT_EQ(count([](const Dataset& d) { return d.ignore_errors(); }), all);
}

TEST(BatchSlicesTest, OthersRowsAreNotMadeBehindARestoreEither) {
  for (const int64_t parallel_calls : {0, 3}) {
    const Counter counter, uncounted;
    const auto batches = [&](const Counter& c) {
      return c.map(Dataset::range(64).shuffle(64, {.seed = 4}), parallel_calls).batch(8);
    };
    const auto advanced = [](const Dataset& dataset, int64_t elements) {
      Iterator iterator = dataset.iterator(0);
      for (int64_t i = 0; i < elements; ++i) (void)iterator.next();
      return iterator;
    };
    const Iterator first = advanced(cut_partial(batches(uncounted), BatchSlices(8, {0, 1, 2})), 9);
    // The replicas live elsewhere now.
    const BatchSlices others(8, {2, 3, 4, 5});
    Iterator undisturbed = advanced(cut_whole(batches(uncounted), others), 12);
    Iterator restored = cut_partial(batches(counter), others).iterator(0);
    restored.restore(first.position());
    EXPECT_EQ(run(restored), run(undisturbed));
    EXPECT_EQ(counter.take(), 5 * 4);
  }
}

TEST(BatchSlicesTest, ThreadsMakeTheOwnRowsOfTheNextBatchAhead) {
  constexpr int64_t kRows = 1024, kOwn = kRows / 64;
  const auto made = std::make_shared<std::counting_semaphore<>>(0);
  const Dataset batches = counting_generator(4 * kRows)
                              .map(
                                  [made](Example e) {
                                    made->release();
                                    return e;
                                  },
                                  {.num_parallel_calls = 2})
                              .batch(kRows);
  Iterator rows = cut_partial(batches, BatchSlices(64, {5})).iterator(0);
  ASSERT_TRUE(rows.next());
  for (int64_t i = 0; i < kOwn + 1; ++i) {
    ASSERT_TRUE(made->try_acquire_for(std::chrono::seconds(30))) << i;
  }
}

TEST(BatchSlicesTest, ARowThatCannotBeMadeCostsItsWorkerTheBatch) {
  for (const int64_t broken : {6, 13}) {  // 13: of a last batch, which seems to be another's
    for (const int64_t parallel_calls : {0, 2}) {
      const Dataset batches = counting_generator(14)
                                  .map(
                                      [broken](Example x) {
                                        if (x[0].item<int64_t>() == broken)
                                          throw std::runtime_error("broken");
                                        return x;
                                      },
                                      {.num_parallel_calls = parallel_calls})
                                  .batch(4);
      const auto rows_of_part = [&](int64_t part) {
        return elements_of(run(cut_partial(batches, BatchSlices(2, {part}))));
      };
      EXPECT_EQ(rows_of_part(0), (std::vector<std::string>{"Long[2](0,1)", "Long[2](4,5)",
                                                           "Long[2](8,9)", "Long[1](12)"}));
      EXPECT_EQ(rows_of_part(1), (std::vector<std::string>{
                                     "Long[2](2,3)", broken == 6 ? "broken" : "Long[2](6,7)",
                                     "Long[2](10,11)", broken == 13 ? "broken" : "Long[1](13)"}));
    }
  }
}

TEST(BatchSlicesTest, AGeneratorThatDoesNotRepeatItselfIsAnError) {
  const auto left = std::make_shared<int64_t>(5);
  const Dataset once = Dataset::from_generator([left]() -> std::optional<Example> {
    if (--*left < 0) return std::nullopt;
    return Example{longs({*left})};
  });
  Iterator rows = cut_partial(once.batch(4), BatchSlices(2, {1})).iterator(0);
  EXPECT_TRUE(rows.next());
  expect_error(ErrorCode::kInvalidArgument, {"a generator must repeat itself"},
               [&] { (void)rows.next(); });
}

}  // namespace
}  // namespace strata::data
