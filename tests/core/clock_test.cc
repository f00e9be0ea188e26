#include "core/clock.h"

#include <gtest/gtest.h>

#include "core/mutex.h"
#include "core/thread.h"
#include "support/fake_clock.h"

namespace strata {
namespace {

using namespace std::chrono_literals;

TEST(ClockTest, SystemClockEndsAWaitAtTheDeadlineOrWhenDone) {
  auto& clock = Clock::system();
  Mutex mutex;
  ConditionVariable condition;
  MutexLock lock(mutex);
  const auto start = clock.now();
  EXPECT_FALSE(clock.wait_until(lock, condition, start + 5ms, [] { return false; }));
  EXPECT_GE(clock.now() - start, 5ms);
  EXPECT_TRUE(clock.wait_until(lock, condition, Clock::TimePoint::max(), [] { return true; }));
}

TEST(ClockTest, FakeClockEndsAWaitWhenTheTestSaysSo) {
  testing::FakeClock clock;
  Mutex mutex;
  ConditionVariable condition;
  bool timed_out = false;
  {
    Thread waiter("waiter", [&] {
      MutexLock lock(mutex);
      timed_out = !clock.wait_until(lock, condition, Clock::TimePoint(1h), [] { return false; });
    });
    clock.advance(1h);
  }
  EXPECT_TRUE(timed_out);
  EXPECT_EQ(clock.now().time_since_epoch(), 1h);
}

}  // namespace
}  // namespace strata
