#include "core/core_follower.h"

#include <gtest/gtest.h>
#include <sched.h>

#include "core/current_core.h"
#include "core/thread.h"

namespace strata::detail {
namespace {

cpu_set_t allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  return set;
}

/// On a thread of its own, which may run on one core alone at first, and on all then.
TEST(CoreFollowerTest, MovesToThePartnersCoreAndStaysFree) {
  const cpu_set_t all = allowed_cores();
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "one core";
  Thread thread("follower", [&] {
    const uint32_t here = current_core();
    cpu_set_t others = all;
    CPU_CLR(here - 1, &others);
    ASSERT_EQ(::sched_setaffinity(0, sizeof others, &others), 0);
    CoreFollower bound;
    for (int i = 0; i < 20; ++i) bound.follow(here);  // it may not run there
    EXPECT_NE(current_core(), here);
    ASSERT_EQ(::sched_setaffinity(0, sizeof all, &all), 0);
    CoreFollower follower;
    bool moved = false;
    for (int i = 0; i < 1000 && !moved; ++i) {  // where all cores are busy it may be moved at once
      follower.follow(here);
      moved = current_core() == here;
    }
    EXPECT_TRUE(moved);
    const cpu_set_t now = allowed_cores();
    EXPECT_TRUE(CPU_EQUAL(&now, &all));
  });
  thread.join();
}

TEST(CoreFollowerTest, AnUnknownCoreIsNotFollowed) {
  const cpu_set_t before = allowed_cores();
  CoreFollower follower;
  for (const uint32_t core : {0U, 100'000U, ~0U}) {
    for (int i = 0; i < 20; ++i) follower.follow(core);
  }
  const cpu_set_t after = allowed_cores();
  EXPECT_TRUE(CPU_EQUAL(&after, &before));
}

}  // namespace
}  // namespace strata::detail
