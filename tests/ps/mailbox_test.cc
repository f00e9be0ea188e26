// Mailboxes by themselves, and between workers and servers.
#include "ps/tables/mailbox.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <limits>
#include <optional>
#include <string>

#include "core/thread.h"
#include "ps/ps_cluster.h"
#include "ps/tables/flat_table.h"
#include "support/expect_error.h"

namespace strata::ps {
namespace {

using test::PsCluster;
using namespace std::chrono_literals;

TEST(MessageSlotTest, HoldsOneMessageUntilItIsTaken) {
  MessageSlot::Memory memory = {};
  MessageSlot slot(&memory);
  EXPECT_EQ(slot.take(), std::nullopt);
  EXPECT_FALSE(slot.put(""));
  EXPECT_FALSE(slot.put(std::string(MessageSlot::kMostBytes + 1, 'x')));
  const std::string longest(MessageSlot::kMostBytes, 'x');
  EXPECT_TRUE(slot.put(longest));
  EXPECT_FALSE(slot.put("another"));
  slot.wait(1h);  // it is there
  EXPECT_EQ(slot.take(), longest);
  EXPECT_EQ(slot.take(), std::nullopt);
  EXPECT_TRUE(slot.put("another"));
  EXPECT_EQ(slot.take(), "another");
  memory.bytes = MessageSlot::kMostBytes + 1;
  expect_error_containing([&] { slot.take(); }, ErrorCode::kDataLoss, "there is room for 4088");
}

/// Each message waits for the answer, so that both ends sleep and spin in all orders.
TEST(MessageSlotTest, NoMessageIsMissedByAThreadThatFallsAsleep) {
  constexpr int kMessages = 20'000;
  MessageSlot::Memory memory[2] = {};
  MessageSlot there(&memory[0]);
  MessageSlot back(&memory[1]);
  const auto await_message = [](MessageSlot& slot) -> std::string {
    for (int i = 0; i < 100; ++i) {
      slot.wait(1s);
      if (const auto message = slot.take()) return *message;
    }
    ADD_FAILURE() << "no message";
    return "";
  };
  const auto start = std::chrono::steady_clock::now();
  Thread echo("echo", [&] {
    for (int i = 0; i < kMessages; ++i) {
      if (!back.put(await_message(there))) return;
    }
  });
  for (int i = 0; i < kMessages; ++i) {
    const std::string message = std::to_string(i);
    ASSERT_TRUE(there.put(message));
    ASSERT_EQ(await_message(back), message);
  }
  echo.join();
  // One that was missed would have cost a second.
  EXPECT_LT(std::chrono::steady_clock::now() - start, 60s);
}

// The link breaks once more has travelled than what opens a table and its mailbox.
TEST(MailboxTest, RequestsDoNotTravelEither) {
  constexpr int kSteps = 500;
  PsCluster cluster(2, 1);
  PsCluster::expect_ok(cluster.run([&](Client& client, int) {
    at::Tensor values = client.make_buffer(1000);
    at::Tensor gradients = client.make_buffer(1000).fill_(1);
    const auto table =
        client.create_flat({.name = "weights", .parts = cut_evenly(1000, 4, 2)}, values, true);
    table->push_pull(gradients, values, {.learning_rate = 1});
    for (const char* const server : {"ps-0", "ps-1"}) {
      cluster.network().cut_after("worker-0", server, 20'000);
      cluster.network().cut_after(server, "worker-0", 20'000);
    }
    for (int step = 0; step < kSteps; ++step) {
      if (step % 2 == 0) {
        table->push_pull(gradients, values, {.learning_rate = 1});
      } else {
        table->push(gradients, {.learning_rate = 1});
        table->pull(values);
      }
    }
    EXPECT_TRUE(values.equal(at::full({1000}, -1.0F - kSteps)));
  }));
}

TEST(MailboxTest, AnErrorIsTheOneThatTheConnectionWouldBring) {
  PsCluster cluster(1, 1);
  PsCluster::expect_ok(cluster.run([&](Client& client, int) {
    at::Tensor values = client.make_buffer(100);
    at::Tensor gradients = client.make_buffer(100).fill_(1);
    const auto table =
        client.create_flat({.name = "weights", .parts = cut_evenly(100, 4, 1)}, values, true);
    table->push_pull(gradients, values, {.learning_rate = 1});
    gradients[7] = std::numeric_limits<float>::infinity();
    for (const at::Tensor& each : {gradients, gradients.clone()}) {
      expect_error_containing([&] { table->push_pull(each, values, {}); },
                              ErrorCode::kInvalidArgument,
                              "push to table 'weights': /job:ps/task:0: [ps] table 'weights': got "
                              "a gradient that is not finite from /job:worker/task:0, element 7;");
    }
    EXPECT_EQ(table->counters()[0].rejected, 2);
    EXPECT_TRUE(values.equal(at::full({100}, -1.0F)));
  }));
}

// It waits at its mailbox for a step that is never made.
TEST(MailboxTest, AServerThatIsLostEndsTheWait) {
  PsCluster cluster(1, 2);
  std::latch waits(1);
  const std::vector<Status> outcomes = cluster.run([&](Client& client, int worker) {
    at::Tensor values = client.make_buffer(1000);
    at::Tensor gradients = client.make_buffer(1000).fill_(1);
    const auto table =
        client.create_flat({.name = "weights",
                            .consistency = {.kind = Consistency::kSynchronous, .workers = 2},
                            .parts = cut_evenly(1000, 4, 1)},
                           values, worker == 0);
    table->push_pull(gradients, values, {.learning_rate = 1});
    if (worker == 1) {
      waits.wait();
      cluster.end_server(0);
      return;
    }
    table->begin_push_pull(gradients, values, {.learning_rate = 1});
    waits.count_down();
    const auto start = std::chrono::steady_clock::now();
    expect_error_containing([&] { table->finish_push_pull(); }, ErrorCode::kUnavailable,
                            "push to table 'weights': /job:ps/task:0");
    EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);  // of 60 s
  });
}

/// Several workers at a time, some of which fetch rows.
TEST(MailboxTest, WorkersPushAtTheSameTime) {
  constexpr int kWorkers = 3;
  constexpr int kSteps = 100;
  constexpr int64_t kElements = 50'000;
  PsCluster cluster(1, kWorkers);
  std::latch all_done(kWorkers);
  PsCluster::expect_ok(cluster.run([&](Client& client, int worker) {
    at::Tensor values = client.make_buffer(kElements);
    at::Tensor gradients = client.make_buffer(kElements).fill_(1);
    const auto table = client.create_flat({.name = "weights", .parts = cut_evenly(kElements, 4, 1)},
                                          values, worker == 0);
    for (int step = 0; step < kSteps; ++step) {
      table->push_pull(gradients, values, {.learning_rate = 1});
      // A pull sees whole pushes.
      EXPECT_EQ(values.min().item<float>(), values.max().item<float>());
      EXPECT_LE(values[0].item<float>(), -static_cast<float>(step + 1));
    }
    all_done.arrive_and_wait();
    table->pull(values);
    EXPECT_TRUE(values.equal(at::full({kElements}, -static_cast<float>(kWorkers * kSteps))));
    EXPECT_EQ(table->counters()[0].pushes, kWorkers * kSteps);
  }));
}

}  // namespace
}  // namespace strata::ps
