// Connections that break at any byte of rendezvous, barriers, data and shutdown; the seed says
// where.
#include <gtest/gtest.h>

#include <random>

#include "support/thread_cluster.h"

namespace strata::cluster {
namespace {

using test::ThreadCluster;
using wire::Deadline;
using namespace std::chrono_literals;

Deadline within_20s() { return Deadline::after(20s); }

void exchange(Server& server) {
  const int own = server.task().index;
  const int size = static_cast<int>(server.members().size());
  const TaskId after = {"worker", (own + 1) % size};
  const TaskId before = {"worker", (own + size - 1) % size};
  const auto to = server.connect(after, "ring", within_20s());
  const auto from = server.connect(before, "ring", within_20s());
  std::vector<std::byte> out(3000, static_cast<std::byte>(own));
  std::vector<std::byte> in(3000);
  auto sent = to->send({.id = 1}, out);
  auto got = from->receive({.id = 1}, in);
  Status seen = server.transport().wait(got, within_20s());
  if (!seen.ok()) server.root_cause(before, seen).throw_if_error();
  seen = server.transport().wait(sent, within_20s());
  if (!seen.ok()) server.root_cause(after, seen).throw_if_error();
  EXPECT_EQ(in[0], static_cast<std::byte>(before.index));
}

void work(Server& server) {
  for (int round = 0; round < 3; ++round) {
    server.set_operation(str_cat("round ", round));
    server.barrier("round", within_20s());
    exchange(server);
    server.set(str_cat("key", server.task().index), std::string(500, 'x'));
    (void)server.get(str_cat("key", (server.task().index + 1) % 3), within_20s());
  }
}

class CutTest : public testing::TestWithParam<int> {};

TEST_P(CutTest, NobodyHangsAndEveryErrorNamesATask) {
  int failed = 0;
  for (int seed = GetParam() * 8; seed < GetParam() * 8 + 8; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 3}}),
                          {.start_timeout = 1s, .liveness = 1s},
                          {.seed = static_cast<uint64_t>(seed),
                           .link = {.fragment = seed % 3 == 0, .jitter = 100us},
                           .shuffle = seed % 2 == 0});
    const int from = static_cast<int>(random() % 3);
    const int to = (from + 1 + static_cast<int>(random() % 2)) % 3;
    const uint64_t bytes = random() % 14000;
    cluster.network().cut_after(str_cat("worker-", from), str_cat("worker-", to), bytes);
    const auto start = std::chrono::steady_clock::now();
    const auto outcomes = cluster.serve(work);
    // What the deadlines and the interval of liveness allow at most.
    EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
    for (const auto& [task, status] : outcomes) {
      if (status.ok()) continue;
      ++failed;
      EXPECT_TRUE(status.code() == ErrorCode::kUnavailable ||
                  status.code() == ErrorCode::kDeadlineExceeded)
          << status.message();
      EXPECT_NE(status.message().find("/job:worker/task:"), std::string::npos) << status.message();
      EXPECT_TRUE(status.message().starts_with("[cluster] ")) << status.message();
    }
  }
  EXPECT_GT(failed, 2);  // or the cuts come where nothing is left to break
}

INSTANTIATE_TEST_SUITE_P(Seeds, CutTest, testing::Range(0, 4));

TEST(SlowLinksTest, NothingDependsOnSpeed) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 3}}), {},
                        {.link = {.latency = 2ms, .fragment = true, .jitter = 3ms}});
  for (const auto& [task, status] : cluster.serve(work)) {
    EXPECT_TRUE(status.ok()) << task.to_string() << ": " << status.message();
  }
}

}  // namespace
}  // namespace strata::cluster
