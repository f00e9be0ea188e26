// Servers as threads over the memory wire.
#include "strata/cluster/server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>

#include "support/expect_error.h"
#include "support/process_cluster.h"
#include "support/thread_cluster.h"

namespace strata::cluster {
namespace {

using test::ThreadCluster;
using wire::Deadline;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

Deadline soon() { return Deadline::after(30s); }

void expect_all_ok(const std::map<TaskId, Status>& outcomes) {
  for (const auto& [task, status] : outcomes) {
    EXPECT_TRUE(status.ok()) << task.to_string() << ": " << status.message();
  }
}

double seconds_since(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

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
                 "[cluster] store: nobody has set \"nothing\" within 0.02 s");
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
    expect_error_containing([&] { server.barrier("b", Deadline::after(50ms)); },
                            ErrorCode::kDeadlineExceeded,
                            "/job:worker/task:1 at worker-1:1 did not come within 0.0");
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
                          ErrorCode::kDeadlineExceeded, "nobody has set \"k\"");
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

// How a task can wait.
using Wait = std::function<void(Server&)>;

void wait_for_key(Server& server) { (void)server.get("never", soon()); }
void wait_at_barrier(Server& server) { server.barrier("never", soon()); }
void wait_for_bytes(Server& server) {
  const TaskId peer = {"worker", server.task().index == 0 ? 1 : 0};
  const auto connection = server.connect(peer, "data", soon());
  std::byte bytes[8];
  auto transfer = connection->receive({.id = 7}, bytes);
  const Status seen = server.transport().wait(transfer, soon());
  server.explain(peer, seen).throw_if_error();
}

// What every task gets when `lost`, who is doing "step 17", is ended by `end` while the others
// wait.
std::map<TaskId, Status> outcomes_of_loss(ThreadCluster& cluster, const TaskId& lost,
                                          const Wait& wait, const Wait& end) {
  return cluster.run([&](ThreadCluster::Task& task) {
    const auto server = task.start();
    if (task.id == lost) {
      server->set_operation("step 17");
      server->barrier("step 17", soon());
      end(*server);
      return;
    }
    server->barrier("step 17", soon());
    const auto start = steady_clock::now();
    try {
      wait(*server);
    } catch (const Error&) {
      EXPECT_LT(seconds_since(start), 2.0) << task.id.to_string();
      EXPECT_TRUE(server->failed().stop_requested());
      // Whatever comes next gets the same error.
      const Status status = server->status();
      expect_error([&] { server->set("k", "v"); }, status.code(), status.message());
      throw;
    }
  });
}

class LossTest : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(LossTest, EveryoneGetsTheSameErrorAtOnce) {
  const auto& [lost_index, kind] = GetParam();
  const Wait waits[] = {wait_for_key, wait_at_barrier, wait_for_bytes};
  const TaskId lost = {"worker", lost_index};
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 3}}));
  // It goes without a shutdown, as a process that crashes.
  const auto outcomes = outcomes_of_loss(cluster, lost, waits[kind], [](Server&) {});
  std::string first;
  for (const auto& [task, status] : outcomes) {
    if (task == lost) continue;
    EXPECT_EQ(status.code(), ErrorCode::kUnavailable) << task.to_string();
    const std::string& text = status.message();
    EXPECT_NE(text.find(str_cat(lost.to_string(), " at worker-", lost_index, ":1")),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("is lost: it closed its connection without leaving"), std::string::npos)
        << text;
    EXPECT_NE(text.find("step 17"), std::string::npos) << text;
    // One error: the leader's words, or, where it is the leader that is lost, everyone's own.
    if (first.empty()) first = text;
    EXPECT_EQ(text, first);
  }
}

INSTANTIATE_TEST_SUITE_P(Everyone, LossTest,
                         testing::Combine(testing::Values(0, 1, 2), testing::Values(0, 1, 2)));

TEST(SilenceTest, ASilentTaskIsLostWithinTheInterval) {
  for (const int silent : {0, 2}) {
    const TaskId lost = {"worker", silent};
    ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 3}}), {.liveness = 1s});
    const auto outcomes = cluster.run([&](ThreadCluster::Task& task) {
      const auto server = task.start();
      server->barrier("start", soon());
      if (task.id == lost) cluster.silence(lost);
      const auto start = steady_clock::now();
      try {
        (void)server->get("never", soon());
      } catch (const Error&) {
        EXPECT_LT(seconds_since(start), 1.5) << task.id.to_string();
        EXPECT_GT(seconds_since(start), 0.3) << task.id.to_string();
        throw;
      }
    });
    for (const auto& [task, status] : outcomes) {
      EXPECT_EQ(status.code(), ErrorCode::kUnavailable) << task.to_string();
      if (task == lost) continue;
      EXPECT_NE(status.message().find(lost.to_string()), std::string::npos) << status.message();
      EXPECT_NE(status.message().find("was silent for"), std::string::npos) << status.message();
    }
  }
}

TEST(ServerTest, ALinkBetweenTwoTasksThatIsCutEndsTheGenerationForAll) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 3}}), {.liveness = 500ms});
  cluster.network().cut("worker-1", "worker-2");
  const auto outcomes = cluster.run([](ThreadCluster::Task& task) {
    const auto server = task.start();
    const TaskId peer = {"worker", 3 - task.id.index};
    if (task.id.index == 0) server->barrier("never", soon());
    (void)server->connect(peer, "data", soon());
  });
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome.second.code(), ErrorCode::kUnavailable);
    EXPECT_TRUE(outcome.second.message().starts_with(
        "[cluster] /job:worker/task:2 at worker-2:1 lost /job:worker/task:1 at worker-1:1: "))
        << outcome.second.message();
  }
}

TEST(ServerTest, WhoCannotGoOnTellsWhy) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 3}}));
  const auto outcomes = cluster.run([](ThreadCluster::Task& task) {
    const auto server = task.start();
    server->barrier("start", soon());
    if (task.id.index == 1) {
      server->abort("the loss is NaN");
    }
    (void)server->get("never", soon());
  });
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome.second.code(), ErrorCode::kAborted);
    EXPECT_EQ(outcome.second.message(),
              "[cluster] /job:worker/task:1 at worker-1:1 gave up: the loss is NaN");
  }
}

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
      server->set("leader goes", "");
    } else {
      (void)server->get("leader goes", soon());
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
      if (task.id.index == 1) (void)server->connect({"worker", 2}, "data", soon());
      expect_error_containing([&] { (void)server->get("never", soon()); }, ErrorCode::kUnavailable,
                              "/job:worker/task:2");
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

TEST(RendezvousTest, WhoIsAbsentIsNamed) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 3}}), {.start_timeout = 200ms});
  const auto outcomes = cluster.run([](ThreadCluster::Task& task) {
    if (task.id.index != 2) (void)task.start();
  });
  for (const int task : {0, 1}) {
    const Status& status = outcomes.at({"worker", task});
    EXPECT_EQ(status.code(), task == 0 ? ErrorCode::kDeadlineExceeded : status.code());
    EXPECT_NE(status.message().find("/job:worker/task:"), std::string::npos) << status.message();
  }
  EXPECT_NE(outcomes.at({"worker", 0}).message().find("/job:worker/task:2 at worker-2:1"),
            std::string::npos)
      << outcomes.at({"worker", 0}).message();
}

TEST(RendezvousTest, ALeaderThatDoesNotComeIsNamed) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 2}}), {.start_timeout = 100ms});
  const auto outcomes = cluster.run([](ThreadCluster::Task& task) {
    if (task.id.index == 1) (void)task.start();
  });
  const Status& status = outcomes.at({"worker", 1});
  EXPECT_EQ(status.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(
      status.message().starts_with("[cluster] rendezvous: /job:worker/task:1 could not "
                                   "reach the leader /job:worker/task:0 at worker-0:1: "))
      << status.message();
}

TEST(RendezvousTest, DifferentSpecsAreNamed) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 3}}), {.start_timeout = 500ms});
  const auto outcomes = cluster.run([](ThreadCluster::Task& task) {
    if (task.id.index == 2) {
      task.spec = ClusterSpec({{"worker", {"worker-0:1", "worker-1:7", "worker-2:1"}}});
    }
    (void)task.start();
  });
  const std::string difference =
      "[cluster] rendezvous: got two cluster specs: for /job:worker/task:1 the leader "
      "/job:worker/task:0 has \"worker-1:1\", /job:worker/task:2 has \"worker-1:7\"; give all "
      "tasks "
      "the same one";
  EXPECT_EQ(outcomes.at({"worker", 2}).message(), difference);
  EXPECT_EQ(outcomes.at({"worker", 2}).code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(outcomes.at({"worker", 0}).message().find(difference), std::string::npos);
}

TEST(RendezvousTest, ATaskThatTakesAnotherForTheLeaderIsTold) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 2}}), {.start_timeout = 500ms});
  const auto outcomes = cluster.run([](ThreadCluster::Task& task) {
    if (task.id.index == 0) {
      // Its own idea: worker 1's address is the chief's.
      task.spec =
          ClusterSpec({{"chief", {"worker-1:1"}}, {"worker", {"worker-0:1", "worker-2:1"}}});
    }
    (void)task.start();
  });
  const std::string& text = outcomes.at({"worker", 0}).message();
  EXPECT_NE(text.find("could not reach the leader /job:chief/task:0 at worker-1:1"),
            std::string::npos)
      << text;
}

TEST(RendezvousTest, TasksOfAnotherJobAreRefused) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 2}}), {.start_timeout = 500ms});
  const auto outcomes = cluster.run([](ThreadCluster::Task& task) {
    if (task.id.index == 1) task.options.job = "another";
    (void)task.start();
  });
  const Status& status = outcomes.at({"worker", 1});
  EXPECT_EQ(status.code(), ErrorCode::kPermissionDenied) << status.message();
  EXPECT_NE(status.message().find("another"), std::string::npos) << status.message();
}

TEST(RendezvousTest, BadOptionsAreRefused) {
  const auto spec = ThreadCluster::spec_of({{"worker", 2}, {"evaluator", 1}});
  const auto server = [&](const TaskId& task, ServerOptions options = {},
                          const ClusterSpec* other = nullptr) {
    wire::MemoryNetwork network;
    options.transport = network.transport("worker-0");
    Server made(other == nullptr ? spec : *other, task, std::move(options));
  };
  expect_error(
      [&] {
        server({"worker", 2});
      },
      "[cluster] ClusterSpec: got task index 2, but \"worker\" has 2 tasks, "
      "[\"worker-0:1\",\"worker-1:1\"]; expected 0 to 1");
  expect_error(
      [&] {
        server({"worker", 0}, {.liveness = 10ms});
      },
      "[cluster] Server: got a liveness interval of 0.01 s; expected 0.1 s at least");
  expect_error(
      [&] {
        server({"worker", 0}, {.members = {{"evaluator", 0}}});
      },
      str_cat("[cluster] Server: got the member /job:evaluator/task:0; expected tasks of ",
              spec.to_string(), " but the evaluator"));
  expect_error(
      [&] {
        server({"worker", 1}, {.members = {{"worker", 0}}});
      },
      "[cluster] Server: got /job:worker/task:1, which is not among `members`; add it");
  const ClusterSpec no_port = {{"worker", {"worker-0:0", "worker-1:1"}}};
  expect_error(
      [&] {
        server({"worker", 0}, {}, &no_port);
      },
      "[cluster] Server: got port 0 for the leader /job:worker/task:0 at worker-0:0, whom "
      "nobody could find; give it a port");
  const ClusterSpec no_host = {{"worker", {":0", "worker-1:1"}}};
  expect_error(
      [&] {
        server({"worker", 0}, {}, &no_host);
      },
      "[cluster] Server: got \":0\" for the leader /job:worker/task:0, whom nobody could "
      "find; give it a host and a port");
}

TEST(RendezvousTest, AnAddressInUseIsQuoted) {
  const std::vector<int> ports = test::free_ports(2);
  const ClusterSpec spec = {
      {"worker", {str_cat("127.0.0.1:", ports[0]), str_cat("127.0.0.1:", ports[1])}}};
  const auto other = wire::make_socket_transport();
  (void)other->listen(wire::Address::parse(spec.task_address("worker", 0)),
                      {"strata", "/job:other/task:0", 0, ""});
  expect_error_containing(
      [&] {
        Server server(spec, {"worker", 0});
      },
      ErrorCode::kAlreadyExists,
      str_cat("[cluster] /job:worker/task:0 cannot listen at ", spec.task_address("worker", 0),
              ": "));
}

TEST(RendezvousTest, ANameThatIsNotKnownIsQuoted) {
  const ClusterSpec spec = {{"worker", {"no-such-host.invalid:1", "127.0.0.1:0"}}};
  const auto start = steady_clock::now();
  expect_error_containing(
      [&] {
        Server server(spec, {"worker", 1}, {.start_timeout = 300ms});
      },
      ErrorCode::kDeadlineExceeded,
      "[cluster] rendezvous: /job:worker/task:1 could not reach the leader /job:worker/task:0 at "
      "no-such-host.invalid:1: ");
  EXPECT_LT(seconds_since(start), 10);
}

}  // namespace
}  // namespace strata::cluster
