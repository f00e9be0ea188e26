// What a coordinator may send to a worker that serves it, and what it gets back: noise ends the
// connection alone, and the worker serves the next coordinator.
#include <gtest/gtest.h>

#include <random>

#include "ps/coordinator/call_message.h"
#include "ps/worker_threads.h"

namespace strata::ps {
namespace {

using test::WorkerThreads;

class CoordinatorAttacksTest : public testing::Test {
 protected:
  CoordinatorAttacksTest() : cluster_(1) {
    cluster_.registry().add("twice", [](int64_t number) { return 2 * number; });
    cluster_.start();
  }

  static wire::Deadline deadline() { return wire::Deadline::after(std::chrono::seconds(30)); }

  /// Connects as the chief, sends each message, and waits until the worker has ended the
  /// connection. @return false: it has not.
  bool is_shut_out(const std::vector<std::string>& messages) {
    const auto transport = cluster_.network().transport("chief-0");
    const auto connection =
        transport->connect(wire::Address::parse(cluster_.spec().task_address({"worker", 0})),
                           {.job = "strata",
                            .task = "/job:chief/task:0",
                            .generation = ++generation_,
                            .purpose = std::string(kCoordinatorPurpose)},
                           deadline());
    try {
      for (const std::string& each : messages) connection->send_message(kCallChannel, each);
    } catch (const Error&) {
      return true;
    }
    return transport->wait_until([&] { return !connection->status().ok(); }, deadline());
  }

  void expect_served() {
    const auto coordinator = cluster_.coordinator();
    EXPECT_EQ(coordinator->schedule("twice", {int64_t{21}}).get<int64_t>(deadline()), 42);
  }

  WorkerThreads cluster_;
  uint64_t generation_ = 0;
};

TEST_F(CoordinatorAttacksTest, BytesThatAreNoMessageEndTheConnectionAlone) {
  std::mt19937_64 random(13);
  for (int i = 0; i < 100; ++i) {
    // The last byte begins a field that does not come.
    std::string noise(random() % 300, '\0');
    for (char& byte : noise) byte = static_cast<char>(random());
    EXPECT_TRUE(is_shut_out({noise + '\x80'})) << i;
  }
  expect_served();
}

TEST_F(CoordinatorAttacksTest, MessagesThatAreNotForItsTimeEndTheConnectionAlone) {
  const std::string call =
      encode(CallMessage{.kind = CallKind::kRun, .calls = {{.number = 1, .function = 0}}});
  EXPECT_TRUE(is_shut_out({call}));  // before it was opened
  for (const uint32_t kind : {0U, 77U, 4000000000U}) {
    EXPECT_TRUE(is_shut_out({encode(CallMessage{.kind = static_cast<CallKind>(kind)})})) << kind;
  }
  EXPECT_TRUE(is_shut_out({encode(CallMessage{.kind = CallKind::kOutcomes})}));
  expect_served();
}

}  // namespace
}  // namespace strata::ps
