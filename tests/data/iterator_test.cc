#include "strata/data/iterator.h"

#include <ranges>

#include "data/elements.h"

namespace strata::data {
namespace {

static_assert(std::input_iterator<Dataset::RangeIterator>);

TEST(IteratorTest, RangeForCountsEpochs) {
  const Dataset dataset = Dataset::range(20).shuffle(20);
  const Dataset copy = dataset;
  const auto round = [](const Dataset& d) {
    std::vector<std::string> all;
    for (const Example& element : d) all.push_back(describe(element));
    return all;
  };
  EXPECT_EQ(round(dataset), describe(dataset, 0));
  EXPECT_EQ(round(copy), describe(dataset, 1));  // copies count together
  EXPECT_EQ(round(dataset), describe(dataset, 2));
  EXPECT_EQ(dataset.iterator().epoch(), 3);
  EXPECT_EQ(Dataset::range(20).shuffle(20).iterator().epoch(), 0);
}

TEST(IteratorTest, OutlivesItsDataset) {
  std::optional<Iterator> iterator;
  {
    const Dataset dataset = counting_generator(4).cache().shuffle(2).repeat(2).batch(3).prefetch();
    iterator = dataset.iterator(0);
  }
  EXPECT_EQ(describe_rest(*iterator).size(), 3u);
}

TEST(IteratorTest, Moves) {
  Iterator a = Dataset::range(5).prefetch().iterator(0);
  (void)a.next();
  Iterator b = Dataset::range(3).batch(2).prefetch().iterator(0);
  (void)b.next();
  b = std::move(a);
  EXPECT_EQ(describe_rest(b).size(), 4u);
}

TEST(IteratorTest, RestoringTakesTheEpochAlong) {
  const Dataset before = Dataset::range(9).shuffle(9).batch(2);
  Iterator first = before.iterator(3);
  (void)first.next();

  const Dataset after = Dataset::range(9).shuffle(9).batch(2);  // a new process
  Iterator second = after.iterator();
  second.restore(first.position());
  EXPECT_EQ(second.epoch(), 3);
  EXPECT_EQ(second.position(), first.position());
  EXPECT_EQ(describe_rest(second), describe_rest(first));
  EXPECT_EQ(after.iterator().epoch(), 4);  // the next range-for goes on
}

// Quoted by docs/data.md.
TEST(IteratorTest, ResumesFromText) {
  const Dataset train = Dataset::range(1000).shuffle(1000, {.seed = 7}).batch(32).prefetch(2);
  std::string saved;
  {
    Iterator batches = train.iterator(5);
    for (int step = 0; step < 10; ++step) (void)batches.next();
    saved = batches.position().to_string();
  }

  Iterator batches = train.iterator();
  batches.restore(Position::from_string(saved));
  while (std::optional<Example> batch = batches.next()) {
    EXPECT_LE(batch->num_rows(), 32);
  }
  EXPECT_EQ(batches.epoch(), 5);
}

TEST(IteratorTest, RestoresBackwardsToo) {
  Iterator iterator = Dataset::range(6).batch(2).prefetch().iterator(0);
  (void)iterator.next();
  const Position position = iterator.position();
  const auto rest = describe_rest(iterator);
  iterator.restore(position);
  EXPECT_EQ(describe_rest(iterator), rest);
}

TEST(IteratorTest, PositionsAreSmall) {
  Iterator iterator =
      Dataset::range(100000).shuffle(10000).repeat().batch(32).prefetch().iterator(0);
  for (int i = 0; i < 100; ++i) (void)iterator.next();
  EXPECT_LT(iterator.position().to_string().size(), 200u);
}

TEST(IteratorTest, ForeignPositionsChangeNothing) {
  const Dataset dataset = Dataset::range(6).batch(2);
  Iterator iterator = dataset.iterator(0);
  (void)iterator.next();
  const auto expect_bad = [&](const Position& position, const std::string& part) {
    expect_error(ErrorCode::kInvalidArgument, {"restore: got", part},
                 [&] { iterator.restore(position); });
  };
  expect_bad(Position(), "a position of ''; expected one of 'iterator'");
  expect_bad(Dataset::range(6).iterator(0).position(), "'rows'; expected one of 'batch'");
  expect_bad(Dataset::range(7).batch(2).iterator(0).position(), "got 7 as number 1 of 'rows'");
  expect_bad(Position::from_string("iterator[0](batch(rows[7,6]))"), "got 7 as number 0 of 'rows'");
  expect_bad(Position::from_string("iterator[0](batch(rows[1]))"),
             "1 numbers and 0 inputs for 'rows'");
  expect_bad(Position::from_string("iterator[-1](batch(rows[1,6]))"), "got -1 as number 0");
  expect_bad(Position::from_string("iterator[0]"), "0 inputs for 'iterator'");
  EXPECT_EQ(describe(*iterator.next()), "Long[2](2,3)");
}

TEST(IteratorTest, RejectsNegativeEpochs) {
  expect_error(ErrorCode::kInvalidArgument, {"iterator: got epoch -1"},
               [] { (void)Dataset::range(3).iterator(-1); });
  expect_error(ErrorCode::kInvalidArgument, {"null source"}, [] { Dataset dataset(nullptr); });
}

}  // namespace
}  // namespace strata::data
