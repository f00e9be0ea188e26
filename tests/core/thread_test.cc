#include "core/thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

namespace strata {
namespace {

TEST(ThreadTest, HasItsName) {
  std::string name;
  Thread thread("strata/replica", [&] { name = thread_name(); });
  thread.join();
  EXPECT_EQ(name, "strata/replica");
}

TEST(ThreadTest, KeepsTheFrontOfALongName) {
  std::string name;
  Thread("strata/replica/123456", [&] { name = thread_name(); }).join();
  EXPECT_EQ(name, "strata/replica/");
}

TEST(ThreadTest, StopsAndJoinsWhenTheHandleGoes) {
  std::atomic<bool> ended = false;
  {
    Thread thread("loop", [&](std::stop_token stop) {
      while (!stop.stop_requested()) std::this_thread::yield();
      ended = true;
    });
    EXPECT_TRUE(thread.joinable());
  }
  EXPECT_TRUE(ended);
}

TEST(ThreadTest, GoesOnAfterDetach) {
  std::promise<void> go_on, promise;
  std::future<void> ended = promise.get_future();
  Thread thread("hangs", [wait = go_on.get_future(), promise = std::move(promise)]() mutable {
    wait.wait_for(std::chrono::seconds(60));
    promise.set_value();
  });
  thread.detach();
  EXPECT_FALSE(thread.joinable());
  thread = Thread();
  go_on.set_value();
  EXPECT_EQ(ended.wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

TEST(ThreadTest, AnEmptyHandleIsNotJoinable) { EXPECT_FALSE(Thread().joinable()); }

}  // namespace
}  // namespace strata
