// Faults and links of the network in memory, and through them the protocol at every step.
#include "wire/memory/memory_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "support/expect_error.h"
#include "wire/wires.h"

namespace strata::wire {
namespace {

using std::chrono::milliseconds;
using Bytes = std::vector<std::byte>;

// The connection breaks when k bytes have gone, for every kind of k: nothing hangs, nothing false
// is delivered, both sides name each other.
TEST(MemoryNetworkTest, ACutAtAnyByteEndsBothSides) {
  std::atomic<int> cut_early{0};
  for (uint64_t k = 0; k < 6000; k += k < 700 ? 7 : 131) {
    MemoryWires wires({.seed = k,
                       .link = {.fragment = k % 2 == 1},
                       .shuffle = k % 3 == 0,
                       .eager_limit = 200,
                       .eager_budget = 1500});
    Mesh pair(wires, 2);
    wires.network().cut_after("host0", "host1", k);
    std::vector<Thread> threads;
    std::atomic<int> ended{0};
    for (const int side : {0, 1}) {
      threads.emplace_back("side", [&, side] {
        Connection& connection = pair.connection(side, 1 - side);
        std::vector<Bytes> in(10);
        std::vector<Bytes> out(10);
        std::vector<Transfer> transfers;
        for (uint32_t i = 0; i < 10; ++i) {
          const size_t size = i * 90;
          const Tag tag = {.channel = 0, .id = i, .fingerprint = 0};
          in[i].resize(size);
          out[i].assign(size, static_cast<std::byte>(i + 1));
          if (i % 2 == 0) transfers.push_back(connection.receive(tag, in[i]));
          transfers.push_back(connection.send(tag, out[i]));
          if (i % 2 == 1) transfers.push_back(connection.receive(tag, in[i]));
        }
        try {
          connection.send_message(0, "a message");
        } catch (const Error&) {
        }
        const auto all_done = [&] { return std::ranges::all_of(transfers, &Transfer::done); };
        EXPECT_TRUE(pair.transport(side).wait_until(all_done, soon())) << k;
        ++ended;
        pair.transport(1 - side).wake();
        EXPECT_TRUE(pair.transport(side).wait_until([&] { return ended == 2; }, soon())) << k;
        for (Transfer& transfer : transfers) {
          const Status status = transfer.status();
          if (status.ok()) continue;
          ++cut_early;
          EXPECT_EQ(status.code(), ErrorCode::kUnavailable);
          EXPECT_NE(status.message().find(connection.name()), std::string::npos);
        }
        for (uint32_t i = 0; i < 10; ++i) {
          const Transfer& receive = transfers[2 * i + (i % 2 == 0 ? 0 : 1)];
          if (receive.status().ok()) {
            EXPECT_TRUE(std::ranges::all_of(
                in[i], [&](std::byte b) { return b == static_cast<std::byte>(i + 1); }));
          }
        }
      });
    }
  }
  EXPECT_GT(cut_early, 500);
}

TEST(MemoryNetworkTest, SilenceIsNoticedByNobodyUntilItEnds) {
  MemoryWires wires;
  Mesh pair(wires, 2);
  Bytes bytes(100'000, std::byte{3});
  Bytes received(bytes.size());
  wires.network().silence("host0", "host1");
  Transfer send = pair.connection(0, 1).send({}, bytes);
  Transfer receive = pair.connection(1, 0).receive({}, received);
  EXPECT_EQ(pair.transport(1).wait(receive, Deadline::after(milliseconds(20))).code(),
            ErrorCode::kDeadlineExceeded);
  EXPECT_TRUE(pair.connection(1, 0).status().ok());
  wires.network().heal("host0", "host1");
  Thread sender("sender", [&] { EXPECT_TRUE(pair.transport(0).wait(send, soon()).ok()); });
  EXPECT_EQ(pair.transport(1).wait(receive, soon()).message(), "");
  EXPECT_TRUE(bytes == received);
}

TEST(MemoryNetworkTest, ACutLinkLetsNobodyThroughUntilItIsHealed) {
  MemoryWires wires;
  auto here = wires.transport(0);
  auto there = wires.transport(1);
  const Address address = there->listen(wires.place(1), hello_of(1));
  wires.network().cut("host0", "host1");
  expect_error([&] { here->connect(address, hello_of(0), Deadline::after(milliseconds(20))); },
               ErrorCode::kDeadlineExceeded,
               str_cat("[wire] connect: the deadline passed before ", address.to_string(),
                       " answered; the last error: the link from host0 to host1 is cut"));
  wires.network().heal("host0", "host1");
  std::shared_ptr<Connection> accepted;
  Thread acceptor("acceptor", [&] { accepted = there->accept(soon()); });
  const auto connection = here->connect(address, hello_of(0), soon());
  acceptor.join();
  Bytes bytes(10);
  Transfer receive = connection->receive({}, bytes);
  wires.network().cut("host0", "host1");
  EXPECT_EQ(here->wait(receive, soon()).message(),
            str_cat("[wire] receive of 10 bytes (channel 0, id 0) from ", connection->name(),
                    ": the peer has disconnected (connection reset)"));
}

// Neither side's memory is the other's to fill.
TEST(MemoryNetworkTest, TooManyMessagesThatNobodyReceivesEndTheConnection) {
  constexpr uint32_t kTooMany = (1u << 17) + 1;
  for (const bool receives : {false, true}) {
    MemoryWires wires;
    Mesh pair(wires, 2);
    Bytes bytes(100'000);
    std::vector<Transfer> transfers;
    for (uint32_t i = 0; i < kTooMany; ++i) {
      const Tag tag = {.channel = 0, .id = i, .fingerprint = 0};
      transfers.push_back(receives ? pair.connection(0, 1).receive(tag, bytes)
                                   : pair.connection(0, 1).send(tag, {}));
      if (i % 1000 == 0) pair.transport(1).progress();
    }
    std::atomic<bool> over{false};
    Thread pump("pump", [&] { pair.transport(0).wait_until([&] { return over.load(); }, soon()); });
    EXPECT_TRUE(
        pair.transport(1).wait_until([&] { return !pair.connection(1, 0).status().ok(); }, soon()));
    over = true;
    pair.transport(0).wake();
    pump.join();
    const Status status = pair.connection(1, 0).status();
    EXPECT_EQ(status.code(), ErrorCode::kResourceExhausted);
    EXPECT_EQ(status.message(),
              str_cat("[wire] ", pair.connection(1, 0).name(), ": ",
                      receives ? "it waits for 131072 messages that are not sent"
                               : "it began 131072 messages that are not received"));
  }
}

TEST(MemoryNetworkTest, LinksTakeTheirTime) {
  MemoryWires wires({.seed = 1, .link = {.latency = milliseconds(4), .bytes_per_second = 50e6}});
  Mesh pair(wires, 2);
  const auto exchange = [&](size_t size) {
    Bytes bytes(size);
    Bytes received(size);
    const auto begin = Deadline::Clock::now();
    Transfer receive = pair.connection(1, 0).receive({}, received);
    Transfer send = pair.connection(0, 1).send({}, bytes);
    Thread sender("sender", [&] { EXPECT_TRUE(pair.transport(0).wait(send, soon()).ok()); });
    EXPECT_EQ(pair.transport(1).wait(receive, soon()).message(), "");
    return Deadline::Clock::now() - begin;
  };
  const auto small = exchange(100);
  EXPECT_GE(small, milliseconds(4));
  EXPECT_LT(small, milliseconds(4000));
  // 2 MB at 50 MB/s, and the latency of a credit, at most, and of the message.
  const auto large = exchange(2'000'000);
  EXPECT_GE(large, milliseconds(44));
  EXPECT_LT(large, milliseconds(4000));
}

}  // namespace
}  // namespace strata::wire
