// Rule 70, without workers: the order, what a lost worker had, errors raised once.
#include "ps/coordinator/closure_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace strata::ps {
namespace {

struct Scheduler {
  explicit Scheduler(size_t limit = 100) : queue(limit) {}

  uint64_t put() {
    auto closure = std::make_unique<Closure>();
    closure->number = next++;
    closure->result = std::make_shared<detail::RemoteState>();
    results[closure->number] = closure->result;
    queue.put(std::move(closure));
    return next - 1;
  }
  const detail::RemoteState& result(uint64_t number) const { return *results.at(number); }

  ClosureQueue queue;
  uint64_t next = 1;
  std::map<uint64_t, std::shared_ptr<detail::RemoteState>> results;
};

const Status kBroken(ErrorCode::kInvalidArgument, "broken");

TEST(ClosureQueueTest, CallsBeginInTheirOrder) {
  Scheduler scheduler;
  for (int i = 0; i < 5; ++i) scheduler.put();
  for (uint64_t i = 1; i <= 5; ++i) {
    EXPECT_EQ(scheduler.queue.begin(static_cast<int>(i % 2)).number, i);
  }
  EXPECT_EQ(scheduler.queue.in_flight(), 5U);
  EXPECT_EQ(scheduler.queue.at(1).size(), 3U);
  scheduler.queue.finished(1, 3, Value(7));
  EXPECT_EQ(scheduler.result(3).value().as_int(), 7);
  EXPECT_FALSE(scheduler.result(1).done());
}

TEST(ClosureQueueTest, ItIsFullAtItsLimit) {
  Scheduler scheduler(2);
  scheduler.put();
  EXPECT_FALSE(scheduler.queue.full());
  scheduler.put();
  EXPECT_TRUE(scheduler.queue.full());
  (void)scheduler.queue.begin(0);
  EXPECT_FALSE(scheduler.queue.full());
}

TEST(ClosureQueueTest, WhatALostWorkerHadComesBackInItsOldPlace) {
  Scheduler scheduler;
  for (int i = 0; i < 6; ++i) scheduler.put();
  (void)scheduler.queue.begin(0);
  (void)scheduler.queue.begin(1);
  (void)scheduler.queue.begin(0);
  EXPECT_EQ(scheduler.queue.lost(0), 2U);
  EXPECT_EQ(scheduler.queue.counts().retried, 2U);
  for (const uint64_t expected : {1, 3, 4, 5, 6}) {
    EXPECT_EQ(scheduler.queue.begin(2).number, expected);
  }
  // An answer of before is nobody's.
  scheduler.queue.finished(0, 1, Value(1));
  EXPECT_FALSE(scheduler.result(1).done());
  EXPECT_EQ(scheduler.queue.lost(0), 0U);
}

TEST(ClosureQueueTest, TheFirstErrorIsTheOneAndWhatWaitsIsCancelled) {
  Scheduler scheduler;
  for (int i = 0; i < 4; ++i) scheduler.put();
  (void)scheduler.queue.begin(0);
  (void)scheduler.queue.begin(1);
  scheduler.queue.failed(0, 1, kBroken);
  scheduler.queue.failed(1, 2, Status(ErrorCode::kInternal, "another"));
  EXPECT_EQ(scheduler.result(1).status().message(), "broken");
  EXPECT_EQ(scheduler.result(2).status().message(), "another");
  for (const uint64_t number : {3, 4}) {
    EXPECT_EQ(scheduler.result(number).status().code(), ErrorCode::kCancelled);
    EXPECT_NE(scheduler.result(number).status().message().find("Please reschedule the function"),
              std::string::npos);
  }
  ASSERT_TRUE(scheduler.queue.has_error());
  EXPECT_TRUE(scheduler.queue.idle());
  EXPECT_EQ(scheduler.queue.take_error().message(), "broken");
  EXPECT_FALSE(scheduler.queue.has_error());
  EXPECT_EQ(scheduler.queue.counts().failed, 2U);
  EXPECT_EQ(scheduler.queue.counts().cancelled, 2U);
}

TEST(ClosureQueueTest, UnderAnErrorWhatComesBackIsCancelled) {
  Scheduler scheduler;
  for (int i = 0; i < 4; ++i) scheduler.put();
  for (int i = 0; i < 4; ++i) (void)scheduler.queue.begin(i);
  scheduler.queue.failed(0, 1, kBroken);
  scheduler.queue.requeued(1, 2);
  (void)scheduler.queue.lost(2);
  // It was asked to stop, and did.
  scheduler.queue.failed(3, 4, Status(ErrorCode::kCancelled, "stopped"));
  for (const uint64_t number : {2, 3, 4}) {
    EXPECT_EQ(scheduler.result(number).status().code(), ErrorCode::kCancelled);
  }
  EXPECT_TRUE(scheduler.queue.idle());
  EXPECT_EQ(scheduler.queue.counts().retried, 0U);
}

// Whatever happens in whatever order: each ends once, and begins after all older ones that wait.
TEST(ClosureQueueTest, RandomHistoriesKeepTheRules) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Scheduler scheduler(20);
    ClosureQueue& queue = scheduler.queue;
    std::map<int, std::set<uint64_t>> at;
    size_t in_flight = 0;
    for (int step = 0; step < 300; ++step) {
      const int worker = static_cast<int>(random() % 3);
      switch (random() % 8) {
        case 0:
        case 1:
          if (!queue.has_error() && !queue.full()) scheduler.put();
          break;
        case 2:
        case 3:
          if (!queue.empty()) {
            const uint64_t first = queue.front().number;
            EXPECT_EQ(queue.begin(worker).number, first);
            at[worker].insert(first);
            ++in_flight;
          }
          break;
        case 4:
          if (!at[worker].empty()) {
            const uint64_t number = *at[worker].begin();
            at[worker].erase(number);
            --in_flight;
            queue.finished(worker, number, Value(static_cast<int64_t>(number)));
            EXPECT_EQ(scheduler.result(number).value().as_int(), static_cast<int64_t>(number));
          }
          break;
        case 5:
          if (!at[worker].empty() && random() % 4 == 0) {
            const uint64_t number = *at[worker].rbegin();
            at[worker].erase(number);
            --in_flight;
            queue.failed(worker, number, kBroken);
            EXPECT_TRUE(queue.has_error());
            EXPECT_TRUE(queue.empty());
          }
          break;
        case 6:
          in_flight -= at[worker].size();
          at[worker].clear();
          (void)queue.lost(worker);
          break;
        case 7:
          if (queue.has_error() && queue.idle()) {
            EXPECT_FALSE(queue.take_error().ok());
          }
          break;
      }
      EXPECT_EQ(queue.in_flight(), in_flight);
      EXPECT_EQ(queue.idle(), in_flight == 0);
    }
    for (auto& [worker, numbers] : at) {
      for (const uint64_t number : numbers) queue.finished(worker, number, Value(1));
    }
    queue.cancel();
    const CoordinatorCounts& counts = queue.counts();
    EXPECT_EQ(counts.scheduled, counts.finished + counts.failed + counts.cancelled);
    for (const auto& [number, result] : scheduler.results) EXPECT_TRUE(result->done()) << number;
  }
}

}  // namespace
}  // namespace strata::ps
