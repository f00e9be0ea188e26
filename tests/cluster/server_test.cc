// Servers as threads over the memory wire.
#include "strata/cluster/server.h"

#include <gtest/gtest.h>

#include <atomic>

#include "support/expect_error.h"
#include "support/thread_cluster.h"

namespace strata::cluster {
namespace {

using test::expect_all_ok;
using test::soon;
using test::ThreadCluster;
using wire::Deadline;
using namespace std::chrono_literals;

TEST(ServerTest, AllMeetAndKnowEachOther) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"chief", 1}, {"worker", 2}, {"ps", 1}}));
  const std::vector<Member> members = {{{"chief", 0}, "chief-0:1"},
                                       {{"worker", 0}, "worker-0:1"},
                                       {{"worker", 1}, "worker-1:1"},
                                       {{"ps", 0}, "ps-0:1"}};
  expect_all_ok(cluster.serve([&](Server& server) {
    EXPECT_EQ(server.generation(), 1u);
    EXPECT_EQ(server.members(), members);
    EXPECT_EQ(server.leader(), (TaskId{"chief", 0}));
    EXPECT_TRUE(server.status().ok());
  }));
}

TEST(ServerTest, PortsThatTheSystemPicksArePublished) {
  const ClusterSpec spec = {{"worker", {"worker-0:1", "worker-1:0", "worker-2:0"}}};
  ThreadCluster cluster(spec);
  expect_all_ok(cluster.serve([&](Server& server) {
    for (const Member& member : server.members()) {
      EXPECT_FALSE(member.address.ends_with(":0")) << member.address;
    }
  }));
}

TEST(ServerTest, WhatOneSetsAnotherGets) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 3}}));
  expect_all_ok(cluster.serve([](Server& server) {
    const int own = server.task().index;
    server.set(str_cat("key", own), str_cat("value", own));
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(server.get(str_cat("key", i), soon()), str_cat("value", i));
    }
    EXPECT_EQ(server.try_get("nothing"), std::nullopt);
    expect_error(
        [&] { server.set(str_cat("key", own), "v", false); }, ErrorCode::kAlreadyExists,
        str_cat("[cluster] store: \"key", own, "\" is set already, and was not to be replaced"));
    expect_error([&] { (void)server.get("nothing", Deadline::after(20ms)); },
                 ErrorCode::kDeadlineExceeded,
                 "[cluster] store: no task has set \"nothing\" within 0.02 s");
    server.barrier("read", soon());
    EXPECT_TRUE(server.erase(str_cat("key", own)));
    EXPECT_FALSE(server.erase(str_cat("key", own)));
  }));
}

TEST(ServerTest, CompareAndSetHasOneWinner) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 4}}));
  std::atomic<int> winners = 0;
  std::atomic<int> counted = 0;
  expect_all_ok(cluster.serve([&](Server& server) {
    const auto first = server.compare_and_set("leader", std::nullopt, server.task().short_name());
    winners += first.swapped;
    EXPECT_EQ(first.value, server.try_get("leader"));
    // A counter: nobody's addition is lost.
    for (int i = 0; i < 20; ++i) {
      auto now = server.try_get("count");
      while (true) {
        const int next = now ? std::stoi(*now) + 1 : 1;
        const auto swap = server.compare_and_set("count", now, std::to_string(next));
        if (swap.swapped) break;
        now = swap.value;
      }
    }
    server.barrier("counted", soon());
    counted += std::stoi(*server.try_get("count"));
  }));
  EXPECT_EQ(winners, 1);
  EXPECT_EQ(counted, 4 * 80);
}

TEST(ServerTest, NobodyPassesABarrierBeforeAllAreThere) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"chief", 1}, {"worker", 3}}));
  std::atomic<int> inside = 0;
  expect_all_ok(cluster.serve([&](Server& server) {
    for (int round = 1; round <= 50; ++round) {
      ++inside;
      server.barrier("round", soon());
      EXPECT_GE(inside, 4 * round);
      server.barrier("out", soon());
      EXPECT_EQ(inside, 4 * round);
      server.barrier("next", soon());
    }
  }));
}

TEST(ServerTest, ABarrierSaysWhoIsAbsent) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 3}}));
  expect_all_ok(cluster.serve([](Server& server) {
    if (server.task().index == 1) {
      (void)server.get("over", soon());
      return;
    }
    // These two come together, however slow the machine is.
    server.barrier("both", soon(), {{"worker", 0}, {"worker", 2}});
    expect_error_containing([&] { server.barrier("b", Deadline::after(500ms)); },
                            ErrorCode::kDeadlineExceeded,
                            "/job:worker/task:1 at worker-1:1 did not join within 0.");
    server.set(str_cat("seen", server.task().index), "");
    (void)server.get("seen0", soon());
    (void)server.get("seen2", soon());
    server.set("over", "");
  }));
}

TEST(ServerTest, ThePsIsNotWaitedForInABarrierOfThoseWhoTrain) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 2}, {"ps", 1}}));
  expect_all_ok(cluster.serve([](Server& server) {
    if (server.task().job != "ps") server.barrier("step", soon());
    server.barrier("all", soon(), {{"worker", 0}, {"worker", 1}, {"ps", 0}});
  }));
}

TEST(ServerTest, TheEvaluatorStandsApart) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 2}, {"evaluator", 1}}));
  expect_all_ok(cluster.run([](ThreadCluster::Task& task) {
    const bool evaluates = task.id.job == "evaluator";
    const auto server = task.start();
    server->barrier("b", soon());
    EXPECT_EQ(server->members().size(), evaluates ? 1u : 2u);
    server->shutdown(soon());
  }));
  // It needs nobody, and does not listen where the spec does not have it.
  wire::MemoryNetwork network;
  Server alone(ThreadCluster::spec_of({{"worker", 2}}), {"evaluator", 0},
               {.transport = network.transport("evaluator-0")});
  alone.set("k", "v");
  EXPECT_EQ(alone.get("k", soon()), "v");
  alone.barrier("b", soon());
  alone.shutdown(soon());
}

TEST(ServerTest, AClusterOfOneNeedsNoNetwork) {
  Server server(ClusterSpec({{"worker", {"no.such.host.invalid:1"}}}), {"worker", 0});
  EXPECT_EQ(server.members().size(), 1u);
  server.barrier("b", soon());
  expect_error_containing([&] { (void)server.get("k", Deadline::after(10ms)); },
                          ErrorCode::kDeadlineExceeded, "no task has set \"k\"");
  server.shutdown(soon());
}

std::byte byte_of(int value) { return static_cast<std::byte>(value); }

TEST(ServerTest, TasksConnectToEachOther) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 4}}));
  expect_all_ok(cluster.serve([](Server& server) {
    const int own = server.task().index;
    for (const char* purpose : {"ring", "other"}) {
      for (int peer = 0; peer < 4; ++peer) {
        if (peer == own) continue;
        const auto connection = server.connect({"worker", peer}, purpose, soon());
        EXPECT_EQ(connection->peer().task, str_cat("/job:worker/task:", peer));
        EXPECT_EQ(connection, server.connect({"worker", peer}, purpose, soon()));
        std::byte out = byte_of(own);
        std::byte in = {};
        auto sent = connection->send({.id = 1}, {&out, 1});
        auto got = connection->receive({.id = 1}, {&in, 1});
        EXPECT_TRUE(server.transport().wait(sent, soon()).ok());
        EXPECT_TRUE(server.transport().wait(got, soon()).ok());
        EXPECT_EQ(in, byte_of(peer));
      }
    }
    server.barrier("done", soon());
    expect_error(
        [&] { (void)server.connect(server.task(), "ring", soon()); },
        str_cat("[cluster] connect: got /job:worker/task:", own, ", which is this task itself"));
    expect_error(
        [&] {
          (void)server.connect({"worker", 9}, "ring", soon());
        },
        "[cluster] connect: got /job:worker/task:9, which takes no part in generation 1");
    if (own == 0) {
      expect_error(
          [&] {
            (void)server.connect({"worker", 1}, "never", Deadline::after(20ms));
          },
          ErrorCode::kDeadlineExceeded,
          "[cluster] connect: /job:worker/task:1 at worker-1:1 did not connect for "
          "\"never\" in time; does it make the same call?");
    }
  }));
}

}  // namespace
}  // namespace strata::cluster
