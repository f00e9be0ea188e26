#include "core/mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace strata {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// As another thread finds it.
bool is_free(Mutex& mutex) {
  bool free = false;
  std::thread([&] {
    if (!mutex.try_lock()) return;
    free = true;
    mutex.unlock();
  }).join();
  return free;
}

TEST(MutexTest, LetsOneInAtATime) {
  struct {
    Mutex mutex;
    int64_t visits STRATA_GUARDED_BY(mutex) = 0;
  } shared;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int visit = 0; visit < 5000; ++visit) {
        const MutexLock lock(shared.mutex);
        ++shared.visits;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const MutexLock lock(shared.mutex);
  EXPECT_EQ(shared.visits, 4 * 5000);
}

TEST(MutexTest, ALockUnlocksInBetween) {
  Mutex mutex;
  {
    MutexLock lock(mutex);
    EXPECT_FALSE(is_free(mutex));
    lock.unlock();
    EXPECT_TRUE(is_free(mutex));
    lock.lock();
    EXPECT_FALSE(is_free(mutex));
    lock.unlock();
  }
  EXPECT_TRUE(is_free(mutex));
}

TEST(MutexTest, AnUnlockLocksAgainAlsoBehindAnException) {
  Mutex mutex;
  {
    const MutexLock lock(mutex);
    {
      const MutexUnlock unlocked(mutex);
      EXPECT_TRUE(is_free(mutex));
    }
    EXPECT_FALSE(is_free(mutex));
    try {
      const MutexUnlock unlocked(mutex);
      throw std::runtime_error("");
    } catch (const std::runtime_error&) {
    }
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
}

TEST(ConditionVariableTest, WakesWhoWaits) {
  Mutex mutex;
  ConditionVariable changed;
  int stage = 0;
  std::thread other([&] {
    MutexLock lock(mutex);
    changed.wait(lock, [&] { return stage == 1; });
    stage = 2;
    changed.notify_all();
  });
  {
    MutexLock lock(mutex);
    stage = 1;
    changed.notify_one();
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(30), [&] { return stage == 2; }));
  }
  other.join();
}

TEST(ConditionVariableTest, GivesUpAtTheDeadline) {
  Mutex mutex;
  ConditionVariable never;
  MutexLock lock(mutex);
  const auto start = steady_clock::now();
  EXPECT_FALSE(never.wait_until(lock, start + milliseconds(20), [] { return false; }));
  EXPECT_GE(steady_clock::now() - start, milliseconds(20));
  EXPECT_FALSE(never.wait_for(lock, milliseconds(1), [] { return false; }));
  while (never.wait_until(lock, start) == std::cv_status::no_timeout) {
  }
  while (never.wait_for(lock, milliseconds(1)) == std::cv_status::no_timeout) {
  }
  EXPECT_FALSE(is_free(mutex));
}

}  // namespace
}  // namespace strata
