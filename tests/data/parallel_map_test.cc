#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/flip.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>
#include <semaphore>
#include <set>
#include <stdexcept>
#include <thread>

#include "core/thread.h"
#include "data/elements.h"

namespace strata::data {
namespace {

constexpr auto kTimeout = std::chrono::seconds(30);

int64_t number_of(const Example& element) { return element.x().item<int64_t>(); }

Example plus(const Example& element, int64_t value) { return Example{element.x().add(value)}; }

TEST(ParallelMapTest, KeepsOrderForAnyNumberOfThreads) {
  const Dataset numbers = Dataset::range(500).shuffle(100);
  const auto fn = [](const Example& e) { return plus(e, 1); };
  const auto expected = describe(numbers.map(fn), 2);
  for (const int64_t calls : {int64_t{1}, int64_t{2}, int64_t{7}, kAutotune})
    EXPECT_EQ(describe(numbers.map(fn, {.num_parallel_calls = calls}), 2), expected) << calls;
  EXPECT_EQ(numbers.map(fn, {.num_parallel_calls = 3}).cardinality(), 500);
}

// Both calls must be under way at once for either to end.
TEST(ParallelMapTest, CallsRunAtOnce) {
  std::counting_semaphore<2> here(0), there(0);
  const Dataset dataset = Dataset::range(2).map(
      [&](Example e) {
        std::counting_semaphore<2>& own = number_of(e) == 0 ? here : there;
        std::counting_semaphore<2>& other = number_of(e) == 0 ? there : here;
        own.release();
        EXPECT_TRUE(other.try_acquire_for(kTimeout));
        return e;
      },
      {.num_parallel_calls = 2});
  EXPECT_EQ(values_of(dataset), (std::vector<int64_t>{0, 1}));
}

// One thread's first call ends only when a later element has been given.
TEST(ParallelMapTest, AFreeOrderDoesNotWaitForTheSlow) {
  std::binary_semaphore begun(0), overtaken(0);
  std::atomic<int64_t> slow = -1;
  bool first = true;
  const std::thread::id consumer = std::this_thread::get_id();
  const auto fn = [&](Example e) {
    int64_t none = -1;
    if (std::this_thread::get_id() == consumer) {
      if (std::exchange(first, false)) {
        EXPECT_TRUE(begun.try_acquire_for(kTimeout));
      }
    } else if (slow.compare_exchange_strong(none, number_of(e))) {
      begun.release();
      EXPECT_TRUE(overtaken.try_acquire_for(kTimeout));
    }
    return e;
  };
  const Dataset dataset =
      Dataset::range(1000).map(fn, {.num_parallel_calls = 2, .deterministic = false});
  std::set<int64_t> seen;
  Iterator iterator = dataset.iterator(0);
  bool released = false;
  while (const auto element = iterator.next()) {
    const int64_t value = number_of(*element);
    EXPECT_TRUE(seen.insert(value).second);
    if (!released && slow >= 0 && value > slow) {
      overtaken.release();
      released = true;
    }
  }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_TRUE(released);
}

TEST(ParallelMapTest, ErrorsComeInTheirPlace) {
  const Dataset dataset = Dataset::range(100).map(
      [](Example e) {
        if (number_of(e) % 10 == 3) throw std::out_of_range("three");
        return e;
      },
      {.num_parallel_calls = 3});
  Iterator iterator = dataset.iterator(0);
  for (int64_t i = 0; i < 100; ++i) {
    if (i % 10 == 3) {
      EXPECT_THROW((void)iterator.next(), std::out_of_range);
      Iterator other = dataset.iterator(0);
      other.restore(Position::from_string(iterator.position().to_string()));
      EXPECT_EQ(number_of(*other.next()), i + 1);
    } else {
      EXPECT_EQ(number_of(*iterator.next()), i);
    }
  }
  EXPECT_FALSE(iterator.next());
}

TEST(ParallelMapTest, ErrorsOfTheInputComeInTheirPlace) {
  const auto fails = [](Example e) {
    if (number_of(e) % 40 >= 38) throw std::out_of_range("input");
    return e;
  };
  const auto twice = [](const Example& e) { return Example{e.x().mul(2)}; };
  const Dataset dataset = Dataset::range(100).map(fails).map(twice, {.num_parallel_calls = 2});
  Iterator iterator = dataset.iterator(0);
  for (int64_t i = 0; i < 100; ++i) {
    if (i % 40 >= 38) {
      EXPECT_THROW((void)iterator.next(), std::out_of_range) << i;
    } else {
      ASSERT_EQ(number_of(*iterator.next()), 2 * i);
    }
    Iterator other = dataset.iterator(0);
    other.restore(iterator.position());
    if (i + 1 < 100 && (i + 1) % 40 < 38) {
      ASSERT_EQ(number_of(*other.next()), 2 * (i + 1)) << i;
    }
  }
}

TEST(ParallelMapTest, ThreadsAreNamedSingleThreadedAndLikeTheCaller) {
  std::mutex mutex;
  std::set<std::string> names;
  std::atomic<bool> alone = true, grad = false;
  std::latch met(2);
  const auto fn = [&](Example e) {
    {
      const std::lock_guard lock(mutex);
      names.insert(thread_name());
    }
    alone = alone && at::get_num_threads() == 1;
    grad = grad || at::GradMode::is_enabled();
    if (number_of(e) < 2) met.arrive_and_wait();  // so two threads are seen at least
    return e;
  };
  const at::NoGradGuard no_grad;
  const int threads_before = at::get_num_threads();
  (void)values_of(Dataset::range(50).map(fn, {.num_parallel_calls = 2}));
  EXPECT_TRUE(names.contains("strata-data"));
  EXPECT_TRUE(alone);
  EXPECT_FALSE(grad);
  EXPECT_EQ(at::get_num_threads(), threads_before);
}

TEST(ParallelMapTest, ReadsOnlySoFarAhead) {
  std::atomic<int64_t> made = 0;
  const auto fn = [&](Example e) {
    ++made;
    return e;
  };
  for (const int64_t budget : {int64_t{0}, int64_t{1} << 30}) {
    made = 0;
    const Dataset dataset = Dataset::range(100000)
                                .map(fn, {.num_parallel_calls = 2})
                                .with_options({.memory_budget = budget});
    Iterator iterator = dataset.iterator(0);
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(iterator.next());
    // Blocks of up to 32, 4 of them ahead, one with each of three threads.
    EXPECT_LE(made, 100 + 32 * (budget == 0 ? 4 : 8));
  }
}

// As deep as anybody nests, with fewer threads than stages.
TEST(ParallelMapTest, NestedParallelTransformsDoNotDeadlock) {
  const auto inc = [](const Example& e) { return plus(e, 1); };
  for (const int64_t threads : {1, 2, 5}) {
    const auto sub = [&](const Example& e) {
      const int64_t first = 1000 * number_of(e);
      return Dataset::range(first, first + 40)
          .map(inc, {.num_parallel_calls = 3})
          .prefetch(2)
          .map(inc, {.num_parallel_calls = 2});
    };
    Dataset dataset = Dataset::range(30).map(inc, {.num_parallel_calls = 4});
    dataset = dataset.interleave(sub, {.cycle_length = 5, .num_parallel_calls = 3});
    dataset = dataset.map(inc, {.num_parallel_calls = 3}).with_options({.num_threads = threads});
    std::vector<int64_t> values = values_of(dataset, 0, 5000);
    ASSERT_EQ(values.size(), 1200u);
    std::sort(values.begin(), values.end());
    EXPECT_EQ(values.front(), 1003);
    EXPECT_EQ(values.back(), 30042);
  }
}

TEST(ParallelMapTest, LeavesAtAnyMoment) {
  const auto inc = [](const Example& e) { return plus(e, 1); };
  const Dataset dataset = Dataset::range(100)
                              .repeat()
                              .map(inc, {.num_parallel_calls = 2})
                              .flat_map([&](const Example&) {
                                return Dataset::range(3).map(inc, {.num_parallel_calls = 2});
                              })
                              .map(inc, {.num_parallel_calls = 3});
  for (int taken = 0; taken < 100; ++taken) {
    Iterator iterator = dataset.iterator(0);
    for (int i = 0; i < taken; ++i) ASSERT_TRUE(iterator.next());
  }
}

TEST(ParallelMapTest, KeysAreTheSameForAnyThreadsAndAfterARestore) {
  const auto keys = [](const Example& e, const ElementKey& key) {
    return Example{e.x(), longs({static_cast<int64_t>(key.seed), static_cast<int64_t>(key.epoch),
                                 static_cast<int64_t>(key.index)})};
  };
  const auto rest_of = [](const std::string& text) { return text.substr(text.find(' ')); };
  const Dataset numbers = Dataset::range(70).shuffle(70);
  const Dataset serial = numbers.map(keys, {.seed = 9});
  const auto expected = describe(serial, 4);
  EXPECT_EQ(rest_of(expected[3]), " Long[3](9,4,3)");
  EXPECT_EQ(describe(numbers.map(keys, {.num_parallel_calls = 3, .seed = 9}), 4), expected);
  // Rounds of a repeat are epochs; behind a repeat it goes on counting.
  EXPECT_EQ(rest_of(describe(numbers.take(1).map(keys).repeat(2), 1)[1]), " Long[3](0,3,0)");
  EXPECT_EQ(rest_of(describe(numbers.take(1).repeat(2).map(keys), 1)[1]), " Long[3](0,1,1)");
  // Elements that are skipped count.
  EXPECT_EQ(describe(serial.skip(5), 4)[0], expected[5]);
}

// docs/data.md quotes this.
TEST(ParallelMapTest, AugmentsAlikeAfterARestore) {
  const Dataset images =
      Dataset::from_tensor_slices({longs({1, 2, 3, 4, 5, 6}).view({3, 2}), longs({0, 1, 2})});
  const auto flip = [](const Example& image, const ElementKey& key) {
    RandomNumbers random(key);
    return random.bernoulli(0.5) ? Example{image.x().flip(0), image.y()} : image;
  };
  const Dataset train = images.map(flip, {.num_parallel_calls = 4, .seed = 7}).batch(2);
  for (int64_t epoch = 0; epoch < 9; ++epoch) {
    Iterator whole = train.iterator(epoch), rest = train.iterator(0);
    (void)whole.next();
    rest.restore(whole.position());
    EXPECT_EQ(describe_rest(rest), describe_rest(whole));
  }
  EXPECT_NE(describe(train, 0), describe(train, 1));
}

TEST(ParallelMapTest, AMapWithoutKeysDoesNotRestoreOneWithKeys) {
  Iterator plain = Dataset::range(9).map([](Example e) { return e; }).iterator(0);
  (void)plain.next();
  const Dataset keyed = Dataset::range(9).map([](Example e, const ElementKey&) { return e; });
  expect_error(ErrorCode::kInvalidArgument, {"map without keys"},
               [&] { keyed.iterator(0).restore(plain.position()); });
}

TEST(ParallelMapTest, DamagedPositionsAreRejected) {
  const Dataset dataset =
      Dataset::range(9).map([](Example e) { return e; }, {.num_parallel_calls = 2});
  for (const char* text :
       {"iterator[0](map[1](rows[0,9]))", "iterator[0](map[0,-1](rows[0,9]))",
        "iterator[0](map[0,1,1,3](rows[0,9]))", "iterator[0](map[0,10](rows[0,9]))",
        "iterator[0](map[0,1,5,5](rows[0,9]))", "iterator[0](filter(rows[0,9]))"})
    expect_error(ErrorCode::kInvalidArgument, {"restore"},
                 [&] { dataset.iterator(0).restore(Position::from_string(text)); });
}

}  // namespace
}  // namespace strata::data
