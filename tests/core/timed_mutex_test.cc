#include "core/timed_mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace strata {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

TEST(TimedMutexTest, LetsOneInAtATime) {
  TimedMutex mutex;
  int inside = 0;
  int64_t visits = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int visit = 0; visit < 5000; ++visit) {
        const std::unique_lock lock(mutex, steady_clock::now() + std::chrono::seconds(30));
        ASSERT_TRUE(lock.owns_lock());
        EXPECT_EQ(++inside, 1);
        ++visits;
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(visits, 4 * 5000);
}

TEST(TimedMutexTest, GivesUpAtTheDeadline) {
  TimedMutex mutex;
  ASSERT_TRUE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock());
  const auto start = steady_clock::now();
  EXPECT_FALSE(mutex.try_lock_for(milliseconds(20)));
  EXPECT_GE(steady_clock::now() - start, milliseconds(20));
  EXPECT_FALSE(mutex.try_lock_until(start));  // past already
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock_until(start));
  mutex.unlock();
}

TEST(TimedMutexTest, ALockUnlocksAtItsEnd) {
  TimedMutex mutex;
  ASSERT_TRUE(mutex.try_lock());
  {
    const TimedMutexLock lock(mutex, std::adopt_lock);
    EXPECT_FALSE(mutex.try_lock());
  }
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

TEST(TimedMutexTest, WakesWhoWaits) {
  TimedMutex mutex;
  ASSERT_TRUE(mutex.try_lock());
  std::thread other([&] {
    ASSERT_TRUE(mutex.try_lock_for(std::chrono::seconds(30)));
    mutex.unlock();
  });
  mutex.unlock();
  other.join();
}

}  // namespace
}  // namespace strata
