#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/thread.h"
#include "data/elements.h"
#include "data/source.h"

namespace strata::data {
namespace {

using namespace std::chrono_literals;

// Uses the processor, so that it counts as work.
void spin_for(std::chrono::nanoseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

Example busy(Example element) {
  spin_for(2ms);
  return element;
}

// What the caller saw calls of next() take: no count of the iterator's may be longer, however often
// the system stops a thread.
class TimedCalls {
 public:
  explicit TimedCalls(Iterator& iterator) : iterator_(iterator) {}
  bool next() {
    const auto begin = std::chrono::steady_clock::now();
    const bool some = iterator_.next().has_value();
    time_ += std::chrono::steady_clock::now() - begin;
    return some;
  }
  std::chrono::nanoseconds time() const { return time_; }

 private:
  Iterator& iterator_;
  std::chrono::nanoseconds time_{0};
};

TEST(StatsTest, CountElementsAndBytes) {
  Iterator iterator = Dataset::range(10).batch(4).iterator(0);
  EXPECT_EQ(iterator.stats().elements, 0);
  while (iterator.next()) {
  }
  EXPECT_EQ(iterator.stats().elements, 3);
  EXPECT_EQ(iterator.stats().bytes, 10 * 8);
  EXPECT_EQ(iterator.stats().buffered_bytes, 0);
  EXPECT_GT(iterator.stats().wait_time, 0ns);
}

TEST(StatsTest, WithoutThreadsWaitingIsMaking) {
  Iterator iterator = Dataset::range(10).map(busy).iterator(0);
  TimedCalls calls(iterator);
  while (calls.next()) {
  }
  const IteratorStats stats = iterator.stats();
  EXPECT_GE(stats.wait_time, 20ms);
  EXPECT_GE(stats.produce_time, 20ms);
  EXPECT_LE(stats.wait_time, calls.time());
  EXPECT_LE(stats.produce_time, calls.time());
}

// A consumer that is slower than the pipeline does not wait, but for the first element.
TEST(StatsTest, WhatRunsAheadIsNotWaitedFor) {
  std::counting_semaphore<100> made(0);
  const auto fn = [&](Example e) {
    spin_for(2ms);
    made.release();
    return e;
  };
  for (const bool parallel : {false, true}) {
    const Dataset numbers = Dataset::range(10);
    const Dataset dataset = parallel ? numbers.map(fn, {.num_parallel_calls = 2}).prefetch(16)
                                     : numbers.map(fn).prefetch(16);
    Iterator iterator = dataset.iterator(0);
    TimedCalls calls(iterator);
    ASSERT_TRUE(calls.next());
    // All are made though one was asked for; no time between calls is waiting.
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(made.try_acquire_for(30s));
    while (calls.next()) {
    }
    EXPECT_LE(iterator.stats().wait_time, calls.time());
    // A thread adds its time at the end of its turn, after it has handed over what it made.
    const auto end = std::chrono::steady_clock::now() + 30s;
    while (iterator.stats().produce_time < 20ms && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    EXPECT_GE(iterator.stats().produce_time, 20ms);
  }
}

// docs/data.md quotes this.
TEST(StatsTest, TellTheShareOfWaiting) {
  const Dataset source = Dataset::range(80);
  const auto decode = [](Example e) { return e; };
  const auto train_on = [](const Example&) { spin_for(5ms); };
  const Dataset train =
      source.map(decode, {.num_parallel_calls = kAutotune}).batch(8).prefetch(kAutotune);
  Iterator batches = train.iterator(0);
  const auto begin = std::chrono::steady_clock::now();
  while (std::optional<Example> batch = batches.next()) train_on(*batch);
  const std::chrono::duration<double> loop = std::chrono::steady_clock::now() - begin;
  const double waited = std::chrono::duration<double>(batches.stats().wait_time) / loop;
  EXPECT_GT(waited, 0);
  EXPECT_LT(waited, 1);
}

TEST(StatsTest, BufferedBytesStayWithinTheBudget) {
  const auto kilobyte = [](const Example&) { return Example{at::zeros({1024}, at::kByte)}; };
  const Dataset made = Dataset::range(200).map(kilobyte);
  const Dataset parallel = Dataset::range(200).map(kilobyte, {.num_parallel_calls = 2});
  const Dataset interleaved = Dataset::range(4).interleave(
      [&](const Example&) { return made.take(50); }, {.cycle_length = 4, .num_parallel_calls = 2});
  for (const Dataset& dataset : {made.prefetch(100), made.prefetch(kAutotune), parallel,
                                 interleaved, parallel.prefetch(100)}) {
    const int64_t budget = 10 * 1024;
    Iterator iterator = dataset.with_options({.memory_budget = budget}).iterator(0);
    int64_t most = 0;
    while (iterator.next()) most = std::max(most, iterator.stats().buffered_bytes);
    // What was begun within the budget may end above it: a block of up to 32 of each thread.
    EXPECT_LE(most, budget + 3 * 32 * 1024);
    EXPECT_EQ(iterator.stats().elements, 200);
    EXPECT_EQ(iterator.stats().buffered_bytes, 0);
  }
}

TEST(StatsTest, CountIgnoredErrors) {
  const Dataset dataset = Dataset::range(10)
                              .map([](Example e) {
                                if (e.x().item<int64_t>() % 3 == 0) throw std::out_of_range("3");
                                return e;
                              })
                              .ignore_errors();
  Iterator iterator = dataset.iterator(0);
  (void)iterator.next();
  (void)iterator.next();
  EXPECT_EQ(iterator.stats().ignored_errors, 1);
  Iterator restored = dataset.iterator(0);
  restored.restore(iterator.position());
  EXPECT_EQ(restored.stats().ignored_errors, 1);
  EXPECT_EQ(describe_rest(restored).size(), 4u);
  EXPECT_EQ(restored.stats().ignored_errors, 4);
}

// Fails at the same place for ever.
class StuckSource final : public detail::Source {
 public:
  class Stream final : public detail::ExampleStream {
   public:
    bool next(Example&) override { throw std::runtime_error("for ever"); }
    Position position() const override { return Position("stuck", {}); }
    void restore(const Position&) override {}
  };
  std::unique_ptr<detail::ExampleStream> examples(uint64_t) const override {
    return std::make_unique<Stream>();
  }
  int64_t cardinality() const override { return Dataset::kUnknown; }
};

TEST(IgnoreErrorsTest, LetsSomeThrough) {
  const auto failing = [](ErrorCode code) {
    return Dataset::range(2)
        .map([code](Example) -> Example { throw Error(code, "on purpose"); })
        .ignore_errors();
  };
  EXPECT_TRUE(values_of(failing(ErrorCode::kDataLoss)).empty());
  for (const auto code :
       {ErrorCode::kCancelled, ErrorCode::kFailedPrecondition, ErrorCode::kInternal})
    expect_error(code, {"on purpose"}, [&] { (void)values_of(failing(code)); });
  // It would never end.
  EXPECT_THROW((void)values_of(Dataset(std::make_shared<StuckSource>()).ignore_errors()),
               std::runtime_error);
}

TEST(OptionsTest, TheNearestWins) {
  const Dataset below = Dataset::range(3).with_options(
      {.auto_shard_policy = AutoShardPolicy::kOff, .num_threads = 3, .memory_budget = 7});
  EXPECT_FALSE(Dataset::range(3).options().num_threads);
  const Options options =
      below.batch(2).with_options({.deterministic = false, .num_threads = 5}).options();
  EXPECT_EQ(options.auto_shard_policy, AutoShardPolicy::kOff);
  EXPECT_EQ(options.deterministic, false);
  EXPECT_EQ(options.num_threads, 5);
  EXPECT_EQ(options.memory_budget, 7);
  const Options zipped =
      Dataset::zip({below.prefetch(), Dataset::range(3).with_options({.num_threads = 9})})
          .options();
  EXPECT_EQ(zipped.num_threads, 3);
  expect_error(ErrorCode::kInvalidArgument, {"with_options: got num_threads 0"},
               [] { (void)Dataset::range(3).with_options({.num_threads = 0}); });
  expect_error(ErrorCode::kInvalidArgument, {"with_options: got memory_budget -1"},
               [] { (void)Dataset::range(3).with_options({.memory_budget = -1}); });
}

// The order of maps that do not say is the options' to choose.
TEST(OptionsTest, DeterminismIsInherited) {
  const auto calls_of = [](std::optional<bool> option, std::optional<bool> own) {
    const Dataset dataset =
        Dataset::range(9)
            .map([](Example e) { return e; }, {.num_parallel_calls = 2, .deterministic = own})
            .with_options({.deterministic = option});
    Iterator iterator = dataset.iterator(0);
    // Only free orders go on from a position with gaps in the same way; ordered ones skip them.
    iterator.restore(Position::from_string("iterator[0](map[0,1,3,5](rows[0,9]))"));
    std::vector<std::string> rest = describe_rest(iterator);
    std::sort(rest.begin(), rest.end());
    return rest.size();
  };
  for (const std::optional<bool> option :
       {std::optional<bool>(), std::optional<bool>(true), std::optional<bool>(false)})
    for (const std::optional<bool> own :
         {std::optional<bool>(), std::optional<bool>(true), std::optional<bool>(false)})
      EXPECT_EQ(calls_of(option, own), 6u);
}

TEST(PrefetchAutotuneTest, GrowsWhenElementsComeInFits) {
  // Ten at once, then a pause of the consumer, over and over: a buffer of two is too small.
  std::atomic<int> made = 0;
  const Dataset dataset = Dataset::range(2000)
                              .map([&](Example e) {
                                spin_for(100us);  // worth a thread
                                ++made;
                                return e;
                              })
                              .prefetch(kAutotune);
  Iterator iterator = dataset.iterator(0);
  int64_t most_ahead = 0;
  for (int64_t i = 0; i < 2000; ++i) {
    ASSERT_TRUE(iterator.next());
    if (i % 10 == 0) spin_for(1500us);
    most_ahead = std::max<int64_t>(most_ahead, made - i);
  }
  EXPECT_GT(most_ahead, 2 + 2);  // in the buffer, in hand, and taken
  EXPECT_FALSE(iterator.next());
}

TEST(PrefetchAutotuneTest, HasAThreadWhileElementsAreWorthOne) {
  // The middle thousand take long. Others may take a core from us for a while, so no exact numbers.
  constexpr int64_t kAll = 3000;
  std::vector<std::string> maker(kAll);
  const Dataset dataset = Dataset::range(kAll).map([&](Example e) {
    const auto i = static_cast<size_t>(e.x().item<int64_t>());
    if (i / 1000 == 1) spin_for(100us);
    maker[i] = thread_name();
    return e;
  });
  Iterator iterator = dataset.prefetch(kAutotune).iterator(0);
  Iterator other = Dataset::range(kAll).map([](Example e) { return e; }).iterator(0);
  for (int64_t i = 0; i < kAll; ++i) {
    ASSERT_EQ(iterator.next()->x().item<int64_t>(), i);
    if (i % 100 != 0) continue;
    other.restore(iterator.position());
    EXPECT_EQ(other.next()->x().item<int64_t>(), i + 1);
  }
  EXPECT_FALSE(iterator.next());
  const auto ahead = [&](int64_t begin) {
    return std::count(maker.begin() + begin, maker.begin() + begin + 1000, "strata-prefetch");
  };
  EXPECT_LT(ahead(0), 500);
  EXPECT_GT(ahead(1000), 500);
  EXPECT_LT(ahead(2000), 500);
}

TEST(PrefetchAutotuneTest, WithoutAThreadOperatorsRunAloneAndErrorsComeInTheirPlace) {
  const int threads_before = at::get_num_threads();
  int threads = 0;
  const Dataset dataset = Dataset::range(3)
                              .map([&](Example e) {
                                threads = at::get_num_threads();
                                if (e.x().item<int64_t>() == 1) throw std::out_of_range("one");
                                return e;
                              })
                              .prefetch(kAutotune);
  Iterator iterator = dataset.iterator(0);
  EXPECT_EQ(iterator.next()->x().item<int64_t>(), 0);
  EXPECT_EQ(threads, 1);
  EXPECT_THROW((void)iterator.next(), std::out_of_range);
  Iterator other = dataset.iterator(0);
  other.restore(iterator.position());
  for (Iterator* each : {&iterator, &other}) {
    EXPECT_EQ(each->next()->x().item<int64_t>(), 2);
    EXPECT_FALSE(each->next());
    EXPECT_FALSE(each->next());
  }
  EXPECT_EQ(at::get_num_threads(), threads_before);
}

}  // namespace
}  // namespace strata::data
