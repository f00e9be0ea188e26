// What a peer that was let in can do to the leader of a cluster: lose its own connection.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "cluster/control_message.h"
#include "core/thread.h"
#include "support/thread_cluster.h"
#include "wire/server.h"

namespace {

/// While it is set, the thread that keeps heartbeats gets no memory for anything as large.
std::atomic<size_t> g_too_large = 0;

bool refuses(size_t size) {
  const size_t limit = g_too_large.load(std::memory_order_relaxed);
  return limit != 0 && size >= limit && strata::thread_name() == "strata-cluster";
}

void* allocated(size_t size) {
  void* const memory = refuses(size) ? nullptr : std::malloc(std::max<size_t>(size, 1));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t size) { return allocated(size); }
void* operator new[](size_t size) { return allocated(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace strata::cluster {
namespace {

using test::soon;
using test::ThreadCluster;
using namespace std::chrono_literals;

/// A peer of the leader that speaks the control protocol by hand.
class RawTask {
 public:
  RawTask(wire::MemoryNetwork& network, const TaskId& task)
      : transport_(network.transport("raw")),
        connection_(transport_->connect(
            wire::Address::parse("worker-0:1"),
            {.job = "strata", .task = task.to_string(), .generation = 1, .purpose = "control"},
            soon())) {}

  void send(const ControlMessage& message) { connection_->send_message(0, encode(message)); }
  /// Until it has come, or its connection has ended.
  ControlMessage hear() { return decode(connection_->receive_message(0, soon())); }
  /// Whether the other side ends it before long.
  bool ends(std::chrono::milliseconds within) {
    return transport_->wait_until([&] { return !connection_->status().ok(); },
                                  wire::Deadline::after(within));
  }
  Status status() const { return connection_->status(); }

 private:
  std::unique_ptr<wire::Transport> transport_;
  std::shared_ptr<wire::Connection> connection_;
};

TEST(ClusterAttacksTest, WantOfMemoryForAMessageEndsThatPeersConnectionAlone) {
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 2}}));
  const auto outcomes = cluster.serve([&](Server& server) {
    server.barrier("begin", soon());
    if (server.task().index == 1) {
      // The leader's main thread waits on its transport meanwhile, so its heartbeats' thread is the
      // one that handles the message.
      server.barrier("armed", soon());
      try {
        server.set("large", std::string(6 << 20, 'x'));
        ADD_FAILURE() << "the leader had memory after all";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << error.what();
      }
      return;
    }
    g_too_large = 1 << 20;
    server.barrier("armed", soon());
    EXPECT_TRUE(server.transport().wait_until([&] { return !server.status().ok(); }, soon()));
    g_too_large = 0;
    EXPECT_EQ(server.status().code(), ErrorCode::kUnavailable);
    EXPECT_NE(server.status().message().find("/job:worker/task:1"), std::string::npos)
        << server.status().message();
  });
  g_too_large = 0;
  test::expect_all_ok(outcomes);
}

TEST(ClusterAttacksTest, ATaskHasFewControlConnections) {
  const wire::LogLines log;
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 2}}));
  test::expect_all_ok(cluster.serve([&](Server& server) {
    server.barrier("begin", soon());
    if (server.task().index == 0) {
      // One that says it is worker 1, and many that are no members.
      for (const bool member : {true, false}) {
        const size_t most = member ? 7 : 32;  // worker 1 itself has one
        std::vector<std::unique_ptr<RawTask>> raw;
        Thread peers("peers", [&] {
          for (size_t i = 0; i < most + 10; ++i) {
            const TaskId task = member ? TaskId{"worker", 1} : TaskId{"other", static_cast<int>(i)};
            raw.push_back(std::make_unique<RawTask>(cluster.network(), task));
          }
          size_t ended = 0;
          for (const auto& each : raw) {
            if (&each < &raw[most]) continue;
            ended += each->ends(10s) ? 1 : 0;
            EXPECT_NE(each->status().message().find("has too many control connections open"),
                      std::string::npos)
                << each->status().message();
          }
          EXPECT_EQ(ended, 10U);
          for (size_t i = 0; i < most; ++i) EXPECT_FALSE(raw[i]->ends(1ms)) << i;
        });
        peers.join();
      }
    }
    server.barrier("end", wire::Deadline::after(120s));
  }));
  EXPECT_TRUE(log.has("has too many control connections open; expected one"));
}

TEST(ClusterAttacksTest, RefusedTasksBringFewLines) {
  const wire::LogLines log;
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", 2}}));
  const auto start = std::chrono::steady_clock::now();
  test::expect_all_ok(cluster.serve([&](Server& server) {
    server.barrier("begin", soon());
    if (server.task().index == 0) {
      Thread peer("peer", [&] {
        RawTask raw(cluster.network(), {"other", 3});
        ControlMessage join;
        join.kind = MessageKind::kJoin;
        join.value = server.spec().to_json().dump();
        for (int i = 1; i <= 500; ++i) {
          join.request = static_cast<uint64_t>(i);
          raw.send(join);
          ControlMessage answer;
          do answer = raw.hear();
          while (answer.request != join.request);
          EXPECT_EQ(answer.code, ErrorCode::kInvalidArgument);
        }
      });
      peer.join();
    }
    server.barrier("end", wire::Deadline::after(120s));
  }));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_TRUE(log.has("which is not in the leader's cluster"));
  const auto lines = static_cast<double>(std::ranges::count(log.text(), '\n'));
  EXPECT_LE(lines, 10 * (took.count() + 2));
}

}  // namespace
}  // namespace strata::cluster
