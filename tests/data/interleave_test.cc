#include <atomic>
#include <chrono>
#include <semaphore>
#include <set>
#include <stdexcept>
#include <thread>

#include "data/elements.h"

namespace strata::data {
namespace {

constexpr auto kLong = std::chrono::seconds(30);

int64_t value_of(const Example& element) { return element.x().item<int64_t>(); }

Dataset hundreds(const Example& element) {
  const int64_t first = 100 * value_of(element);
  return Dataset::range(first, first + 10);
}

// Reading both must be under way at once for either to go on.
TEST(InterleaveTest, DatasetsAreReadAtOnce) {
  std::counting_semaphore<2> here(0), there(0);
  const auto fn = [&](const Example& e) {
    const bool first = value_of(e) == 0;
    return hundreds(e).map([&, first](Example x) {
      if (value_of(x) % 100 == 0) {
        (first ? here : there).release();
        EXPECT_TRUE((first ? there : here).try_acquire_for(kLong));
      }
      return x;
    });
  };
  const Dataset dataset =
      Dataset::range(2).interleave(fn, {.cycle_length = 2, .num_parallel_calls = 2});
  EXPECT_EQ(values_of(dataset, 0, 4), (std::vector<int64_t>{0, 100, 1, 101}));
}

// A dataset that stands still does not hold up the others, and each keeps its own order.
TEST(InterleaveTest, AFreeOrderDoesNotWaitForTheSlow) {
  std::binary_semaphore begun(0), overtaken(0);
  std::atomic<int64_t> slow = -1;
  bool first = true;
  const std::thread::id consumer = std::this_thread::get_id();
  const auto stand_still = [&](Example x) {
    int64_t none = -1;
    if (std::this_thread::get_id() == consumer) {
      if (std::exchange(first, false)) {
        EXPECT_TRUE(begun.try_acquire_for(kLong));
      }
    } else if (slow.compare_exchange_strong(none, value_of(x) / 100)) {
      begun.release();
      EXPECT_TRUE(overtaken.try_acquire_for(kLong));
    }
    return x;
  };
  const auto fn = [&](const Example& e) { return hundreds(e).map(stand_still); };
  const Dataset dataset = Dataset::range(9).interleave(
      fn, {.cycle_length = 3, .num_parallel_calls = 2, .deterministic = false});
  std::vector<int64_t> next(9, 0);
  bool released = false;
  Iterator iterator = dataset.iterator(0);
  while (const auto element = iterator.next()) {
    const int64_t value = value_of(*element), from = value / 100;
    EXPECT_EQ(value % 100, next[static_cast<size_t>(from)]++);
    if (!released && slow >= 0 && from != slow) {
      overtaken.release();
      released = true;
    }
  }
  EXPECT_EQ(next, std::vector<int64_t>(9, 10));
  EXPECT_TRUE(released);
}

TEST(InterleaveTest, ErrorsComeInTheirPlace) {
  // Opening dataset 1 fails, and so does element 203.
  const auto fn = [](const Example& e) {
    if (value_of(e) == 1) throw std::out_of_range("opening");
    return hundreds(e).map([](Example x) {
      if (value_of(x) == 203) throw std::domain_error("reading");
      return x;
    });
  };
  std::vector<std::string> serial;
  for (const int64_t calls : {0, 1, 3}) {
    const Dataset dataset =
        Dataset::range(4).interleave(fn, {.cycle_length = 2, .num_parallel_calls = calls});
    Iterator iterator = dataset.iterator(0);
    std::vector<std::string> seen;
    while (seen.size() < 100) {
      try {
        const auto element = iterator.next();
        if (!element) break;
        seen.push_back(std::to_string(value_of(*element)));
      } catch (const std::exception& error) {
        seen.emplace_back(error.what());
      }
    }
    ASSERT_EQ(seen.size(), 31u);
    EXPECT_EQ(seen[1], "opening");
    EXPECT_EQ(seen[2], "200");
    if (calls == 0) serial = seen;
    EXPECT_EQ(seen, serial);
  }
}

TEST(InterleaveTest, ErrorsOfTheInputComeInTheirPlace) {
  const Dataset input = Dataset::range(5).map([](Example e) {
    if (value_of(e) == 1 || value_of(e) == 2) throw std::out_of_range("input");
    return e;
  });
  for (const int64_t calls : {0, 2}) {
    for (const bool deterministic : {true, false}) {
      const Dataset dataset = input.interleave(
          hundreds,
          {.cycle_length = 2, .num_parallel_calls = calls, .deterministic = deterministic});
      Iterator iterator = dataset.iterator(0);
      std::set<int64_t> values;
      int errors = 0;
      for (bool more = true; more;) {
        try {
          const auto element = iterator.next();
          more = element.has_value();
          if (more) values.insert(value_of(*element));
        } catch (const std::out_of_range&) {
          ++errors;
        }
      }
      EXPECT_EQ(errors, 2);
      EXPECT_EQ(values.size(), 30u);
    }
  }
}

// Files are opened ahead of their turn, but no more than threads.
TEST(InterleaveTest, OpensOnlySoManyAhead) {
  std::atomic<int> opened = 0;
  const auto fn = [&](const Example& e) {
    ++opened;
    return hundreds(e);
  };
  const Dataset dataset =
      Dataset::range(1000).interleave(fn, {.cycle_length = 3, .num_parallel_calls = 2});
  Iterator iterator = dataset.iterator(0);
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(iterator.next());
  EXPECT_LE(opened, 3 + 3);
  EXPECT_GE(opened, 3);
}

TEST(InterleaveTest, DamagedPositionsAreRejected) {
  for (const int64_t calls : {0, 2}) {
    const Dataset dataset =
        Dataset::range(3).interleave(hundreds, {.cycle_length = 2, .num_parallel_calls = calls});
    for (const char* text : {"iterator[0](interleave[0,0](rows[1,3],empty))",
                             "iterator[0](interleave[2,0](rows[1,3],empty,empty))",
                             "iterator[0](interleave[0,1](rows[1,3],empty,empty))",
                             "iterator[0](interleave[0,0](rows[1,3],open[0](rows[0,3]),empty))",
                             "iterator[0](interleave[0,0](rows[1,3],open[0,0](rows[3,3]),empty))",
                             "iterator[0](interleave[0,0](rows[1,3],half[0,0](rows[0,3]),empty))"})
      expect_error(ErrorCode::kInvalidArgument, {"restore"},
                   [&] { dataset.iterator(0).restore(Position::from_string(text)); });
  }
}

}  // namespace
}  // namespace strata::data
