#include "ps/tables/serial_executor.h"

#include <gtest/gtest.h>

#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "core/thread.h"

namespace strata::ps {
namespace {

TEST(SerialExecutorTest, TasksOfAllKindsRunOneAtATimeInTheirOrder) {
  constexpr int kCallers = 3;
  constexpr int kTasks = 300;
  std::vector<std::vector<int>> orders(kCallers);  // by caller, of its own tasks
  bool busy = false;                               // no lock: a race would be found
  int64_t done = 0;
  {
    SerialExecutor executor("test");
    std::vector<Thread> callers;
    for (int caller = 0; caller < kCallers; ++caller) {
      callers.emplace_back("caller", [&, caller] {
        const auto task = [&, caller](int i) {
          EXPECT_FALSE(busy);
          busy = true;
          orders[static_cast<size_t>(caller)].push_back(i);
          ++done;
          busy = false;
        };
        for (int i = 0; i < kTasks; ++i) {
          if (i % 3 == 0) {
            executor.run([=] { task(i); }, /*is_short=*/i % 2 == 0);
          } else {
            executor.run_in_turn([&] { task(i); });
          }
        }
        executor.run_in_turn([] {});  // behind all of this caller's
      });
    }
  }
  EXPECT_EQ(done, kCallers * kTasks);
  for (const std::vector<int>& order : orders) {
    for (int i = 0; i < kTasks; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
  }
}

TEST(SerialExecutorTest, ACallersTurnIsOnItsOwnThreadBehindWhatCameBefore) {
  SerialExecutor executor("test");
  std::latch begun(1);
  std::latch may_end(1);
  std::string order;
  executor.run(
      [&] {
        begun.count_down();
        may_end.wait();
        order += 'a';
      },
      /*is_short=*/false);
  begun.wait();
  executor.run([&] { order += 'b'; }, /*is_short=*/true);
  std::thread::id ran_on;
  Thread caller("caller", [&] {
    executor.run_in_turn([&] {
      ran_on = std::this_thread::get_id();
      order += 'c';
    });
    EXPECT_EQ(ran_on, std::this_thread::get_id());
  });
  may_end.count_down();
  caller.join();
  EXPECT_EQ(order, "abc");
}

TEST(SerialExecutorTest, ATaskThatThrowsLeavesItFree) {
  SerialExecutor executor("test");
  executor.run_in_turn([] { throw std::bad_alloc(); });
  bool ran = false;
  executor.run_in_turn([&] { ran = true; });
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace strata::ps
