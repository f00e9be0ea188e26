// How generations end well, and how the next one begins.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>

#include "strata/cluster/server.h"
#include "support/expect_error.h"
#include "support/thread_cluster.h"

namespace strata::cluster {
namespace {

using test::expect_all_ok;
using test::soon;
using test::ThreadCluster;
using wire::Deadline;
using namespace std::chrono_literals;

// A task may end in any order; all others end well, too.
TEST(ShutdownTest, WhicheverFinishesFirst) {
  std::vector<int> order = {0, 1, 2};
  do {
    ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 3}}));
    expect_all_ok(cluster.run([&](ThreadCluster::Task& task) {
      const auto server = task.start();
      const auto place = std::ranges::find(order, task.id.index) - order.begin();
      (void)server->connect({"worker", (task.id.index + 1) % 3}, "ring", soon());
      (void)server->connect({"worker", (task.id.index + 2) % 3}, "ring", soon());
      server->barrier("last", soon());
      // The n-th sees the one before it going.
      if (place > 0) (void)server->get(str_cat("going", place - 1), soon());
      server->set(str_cat("going", place), "");
      server->shutdown(soon());
      EXPECT_TRUE(server->status().ok()) << server->status().message();
    }));
  } while (std::ranges::next_permutation(order).found);
}

TEST(ShutdownTest, TheLeaderServesUntilTheLast) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 3}}));
  expect_all_ok(cluster.run([&](ThreadCluster::Task& task) {
    const auto server = task.start();
    if (task.id.index == 0) {
      server->set("leader leaves", "");
    } else {
      (void)server->get("leader leaves", soon());
      server->set(str_cat("still", task.id.index), "x");
      EXPECT_EQ(server->get("still1", soon()), "x");
      EXPECT_EQ(server->get("still2", soon()), "x");
      server->barrier("we two", soon(), {{"worker", 1}, {"worker", 2}});
      expect_error_containing([&] { server->barrier("all", soon()); },
                              ErrorCode::kFailedPrecondition,
                              "/job:worker/task:0 at worker-0:1 has ended and will not come");
    }
    server->shutdown(soon());
  }));
}

TEST(ShutdownTest, TheLeaderDoesNotWaitForEver) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 2}}));
  const auto outcomes = cluster.run([&](ThreadCluster::Task& task) {
    const auto server = task.start();
    server->barrier("start", soon());
    if (task.id.index == 0) return server->shutdown(Deadline::after(50ms));
    const auto stop = server->failed();
    (void)server->transport().wait_until([&] { return stop.stop_requested(); }, soon());
    server->status().throw_if_error();
  });
  EXPECT_TRUE(outcomes.at({"worker", 0}).ok());
  EXPECT_EQ(outcomes.at({"worker", 1}).message(),
            "[cluster] /job:worker/task:0 at worker-0:1, the leader, has ended");
}

TEST(RejoinTest, ATaskThatIsStartedAnewComesBack) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 3}}));
  expect_all_ok(cluster.run([](ThreadCluster::Task& task) {
    auto server = task.start();
    server->set(str_cat("old", task.id.index), "");
    server->barrier("start", soon());
    if (task.id.index == 2) {
      (void)server->connect({"worker", 1}, "data", soon());
      server.reset();  // crashes
      server = task.start();
    } else {
      expect_error_containing(
          [&] {
            if (task.id.index == 1) (void)server->connect({"worker", 2}, "data", soon());
            (void)server->get("never", soon());
          },
          ErrorCode::kUnavailable, "/job:worker/task:2");
      server->rejoin(soon());
    }
    EXPECT_EQ(server->generation(), 2u);
    EXPECT_TRUE(server->status().ok());
    EXPECT_FALSE(server->failed().stop_requested());
    EXPECT_EQ(server->members().size(), 3u);
    EXPECT_EQ(server->try_get("old0"), std::nullopt);
    server->barrier("start", soon());
    for (int peer = 0; peer < 3; ++peer) {
      if (peer != task.id.index) (void)server->connect({"worker", peer}, "data", soon());
    }
    server->shutdown(soon());
  }));
}

TEST(RejoinTest, ALeaderThatIsStartedAnewIsFoundAgain) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 3}}));
  expect_all_ok(cluster.run([](ThreadCluster::Task& task) {
    auto server = task.start();
    server->barrier("start", soon());
    if (task.id.index == 0) {
      server.reset();
      server = task.start();
    } else {
      expect_error_containing([&] { (void)server->get("never", soon()); }, ErrorCode::kUnavailable,
                              "/job:worker/task:0");
      server->rejoin(soon());
    }
    EXPECT_EQ(server->generation(), 2u);
    server->barrier("start", soon());
    server->shutdown(soon());
  }));
}

TEST(RejoinTest, SurvivorsGoOnUntilAReplacementComes) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 3}}));
  std::promise<void> replace;
  const auto replaced = replace.get_future().share();
  expect_all_ok(cluster.run([&](ThreadCluster::Task& task) {
    auto server = task.start();
    server->barrier("start", soon());
    if (task.id.index == 2) {
      server.reset();
      replaced.wait();
      server = task.start();
      EXPECT_EQ(server->generation(), 3u);
    } else {
      expect_error_containing([&] { (void)server->get("never", soon()); }, ErrorCode::kUnavailable,
                              "/job:worker/task:2");
      server->rejoin(soon(), true);
      EXPECT_EQ(server->generation(), 2u);
      EXPECT_EQ(server->members().size(), 2u);
      server->barrier("the two", soon());
      if (task.id.index == 0) {
        EXPECT_TRUE(server->newcomers().empty());
        replace.set_value();
      }
      EXPECT_TRUE(
          server->transport().wait_until([&] { return !server->newcomers().empty(); }, soon()));
      EXPECT_EQ(server->newcomers(), (std::vector<TaskId>{{"worker", 2}}));
      server->barrier("agreed", soon());
      server->rejoin(soon(), true);
      EXPECT_TRUE(server->newcomers().empty());
    }
    EXPECT_EQ(server->members().size(), 3u);
    server->barrier("all", soon());
    server->shutdown(soon());
  }));
}

// Those who are left decide whom they wait for; who waits to be taken in has no say.
TEST(RejoinTest, WhoIsLostHoldsUpNoNewcomer) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 3}}));
  std::promise<void> replace;
  const auto replaced = replace.get_future().share();
  expect_all_ok(cluster.run([&](ThreadCluster::Task& task) {
    auto server = task.start();
    server->barrier("start", soon());
    if (task.id.index == 2) {
      server.reset();
      replaced.wait();
      server = task.start();
    } else {
      expect_error_containing([&] { (void)server->get("never", soon()); }, ErrorCode::kUnavailable,
                              "/job:worker/task:2");
      server->rejoin(soon(), true);
      server->barrier("the two", soon());
      if (task.id.index == 0) replace.set_value();
      EXPECT_TRUE(
          server->transport().wait_until([&] { return !server->newcomers().empty(); }, soon()));
      server->barrier("known", soon());
      if (task.id.index == 1) return server.reset();  // lost, too
      expect_error_containing([&] { (void)server->get("never", soon()); }, ErrorCode::kUnavailable,
                              "/job:worker/task:1");
      server->rejoin(soon(), true);
    }
    EXPECT_EQ(server->generation(), 3u);
    EXPECT_EQ(server->members().size(), 2u);
    EXPECT_TRUE(server->newcomers().empty());
    server->barrier("all", soon());
    server->shutdown(soon());
  }));
}

}  // namespace
}  // namespace strata::cluster
