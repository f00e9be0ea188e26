// A task is lost: everyone hears of it, in time and in the same words.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "strata/cluster/server.h"
#include "support/expect_error.h"
#include "support/thread_cluster.h"

namespace strata::cluster {
namespace {

using test::seconds_since;
using test::soon;
using test::ThreadCluster;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

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
  server.root_cause(peer, seen).throw_if_error();
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
      const auto failed = server->failed();
      EXPECT_TRUE(server->transport().wait_until([&] { return failed.stop_requested(); }, soon()));
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

// A collective in small: every task sends to every other and receives from it, then gives up all of
// its connections, as WireCommunicator does.
void exchange(Server& server, const std::function<wire::Tag(const TaskId& from)>& tag_from,
              wire::Deadline deadline = soon()) {
  std::vector<std::shared_ptr<wire::Connection>> peers;
  std::vector<std::vector<std::byte>> in;
  const std::vector<std::byte> out(1'000'000);
  for (const Member& member : server.members()) {
    if (member.task == server.task()) continue;
    peers.push_back(server.connect(member.task, "mesh", soon()));
    in.emplace_back(out.size());
  }
  server.barrier("connected", soon());
  while (true) {
    std::vector<wire::Transfer> transfers;
    for (size_t i = 0; i < peers.size(); ++i) {
      const TaskId peer = TaskId::parse(peers[i]->peer().task);
      transfers.push_back(peers[i]->receive(tag_from(peer), in[i]));
      transfers.push_back(peers[i]->send({.id = 1}, out));
    }
    const Status seen = server.transport().wait_all(transfers, deadline);
    if (seen.ok()) continue;
    const Status why = server.root_cause(seen);
    for (const auto& peer : peers) peer->fail(why);
    why.throw_if_error();
  }
}

// @return what all of them got.
std::string the_one_error(const std::map<TaskId, Status>& outcomes, ErrorCode code) {
  const std::string first = outcomes.begin()->second.message();
  for (const auto& [task, status] : outcomes) {
    EXPECT_EQ(status.code(), code) << task.to_string() << ": " << status.message();
    EXPECT_EQ(status.message(), first) << task.to_string();
  }
  return first;
}

const auto same_everywhere = [](const TaskId&) { return wire::Tag{.id = 1}; };

TEST(ExplainTest, ALinkThatIsCutInACollectiveIsNamedByAll) {
  for (const int seed : {1, 2, 3, 4}) {
    ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 5}}), {.liveness = 3s});
    std::atomic<int> there = 0;
    Thread cutter("cutter", [&] {
      const auto limit = soon();
      while (there < 5 && !limit.passed()) std::this_thread::yield();
      cluster.network().cut_after("worker-2", "worker-3", 5'000'000u * static_cast<unsigned>(seed));
    });
    const auto outcomes = cluster.run([&](ThreadCluster::Task& task) {
      const auto server = task.start();
      ++there;
      exchange(*server, same_everywhere);
    });
    const std::string error = the_one_error(outcomes, ErrorCode::kUnavailable);
    EXPECT_TRUE(error.starts_with("[cluster] /job:worker/task:2 at worker-2:1 lost "
                                  "/job:worker/task:3 at worker-3:1: [wire] ") ||
                error.starts_with("[cluster] /job:worker/task:3 at worker-3:1 lost "
                                  "/job:worker/task:2 at worker-2:1: [wire] "))
        << error;
  }
}

TEST(ExplainTest, ADisagreementOfTwoIsTheErrorOfAll) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 4}}));
  const auto outcomes = cluster.run([&](ThreadCluster::Task& task) {
    const auto server = task.start();
    exchange(*server, [&](const TaskId& from) {
      const bool differs = task.id.index == 1 && from.index == 3;
      return wire::Tag{.id = 1, .fingerprint = differs ? 9u : 0u};
    });
  });
  const std::string error = the_one_error(outcomes, ErrorCode::kFailedPrecondition);
  EXPECT_NE(error.find("/job:worker/task:1 receives 1000000 bytes with fingerprint "
                       "0x0000000000000009 where /job:worker/task:3 sends"),
            std::string::npos)
      << error;
}

TEST(ExplainTest, ADeadlineOfOneIsTheErrorOfAll) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 3}}));
  const auto outcomes = cluster.run([&](ThreadCluster::Task& task) {
    const auto server = task.start();
    // Task 2 waits for what nobody sends.
    const bool alone = task.id.index == 2;
    exchange(
        *server,
        [&](const TaskId& from) { return wire::Tag{.id = alone && from.index == 0 ? 2u : 1u}; },
        alone ? wire::Deadline::after(300ms) : soon());
  });
  const std::string error = the_one_error(outcomes, ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(
      error.starts_with("[cluster] /job:worker/task:2 at worker-2:1: [wire] wait: the "
                        "deadline passed before the receive of 1000000 bytes (channel 0, "
                        "id 2) from /job:worker/task:0 at "))
      << error;
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
              "[cluster] /job:worker/task:1 at worker-1:1 aborted: the loss is NaN");
  }
}

}  // namespace
}  // namespace strata::cluster
