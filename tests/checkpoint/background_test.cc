#include "checkpoint/background.h"

#include <gtest/gtest.h>
#include <time.h>

#include <chrono>
#include <future>

namespace strata::checkpoint {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Works until the calling thread has used so much of the processor.
void burn(milliseconds cpu_time) {
  const auto used = [] {
    timespec time = {};
    (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto end = used() + cpu_time;
  while (used() < end) {
  }
}

TEST(BackgroundTest, RestsForItsShare) {
  Background background;
  std::promise<Clock::duration> rested;
  background.start([&] {
    burn(milliseconds(10));
    const auto start = Clock::now();
    background.throttle(0.1);
    rested.set_value(Clock::now() - start);
  });
  auto result = rested.get_future();
  ASSERT_EQ(result.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_GE(result.get(), milliseconds(90));  // 10 ms are a tenth of 100
}

TEST(BackgroundTest, DoesNotRestWhileSomebodyWaits) {
  Background background;
  const auto start = Clock::now();
  background.start([&] {
    for (int i = 0; i < 5; ++i) {
      burn(milliseconds(10));
      background.throttle(1e-5);  // a quarter of an hour each
    }
  });
  background.wait();
  EXPECT_LT(Clock::now() - start, std::chrono::minutes(1));
  EXPECT_FALSE(background.busy());
}

}  // namespace
}  // namespace strata::checkpoint
