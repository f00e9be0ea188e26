#include "suites/netns_testbed.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "core/thread.h"
#include "strata/core/error.h"
#include "support/expect_error.h"
#include "wire/tcp/socket_transport.h"

namespace strata::bench {
namespace {

using namespace std::chrono_literals;
using wire::Deadline;

class NetworkTestbedTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = NetworkTestbed::missing();
    if (!missing.empty()) GTEST_SKIP() << missing;
  }
};

wire::Hello hello(int host) {
  return {.job = "lab", .task = str_cat("/job:worker/task:", host), .generation = 0, .purpose = ""};
}

/// A task of the wire on each of two hosts, connected.
struct Pair {
  explicit Pair(const NetworkTestbed& testbed) {
    // Sockets stay where they were made, so it does not matter who waits on them later.
    Thread("lab", [&] {
      testbed.move_here(1);
      transports[1] = wire::make_socket_transport();
      address = transports[1]->listen({.host = testbed.address(1), .port = 0}, hello(1));
    }).join();
    Thread accepting("accepts", [&] { ends[1] = transports[1]->accept(Deadline::after(20s)); });
    Thread("lab", [&] {
      testbed.move_here(0);
      transports[0] = wire::make_socket_transport();
      ends[0] = transports[0]->connect(address, hello(0), Deadline::after(20s));
    }).join();
    accepting.join();
  }

  /// Sends `bytes` from host 0 to host 1. @return whether they came in time.
  bool send(size_t bytes, std::chrono::milliseconds limit) {
    std::vector<std::byte> sent(bytes), received(bytes);
    wire::Transfer receive = ends[1]->receive({.channel = 1, .id = ++id}, received);
    wire::Transfer send = ends[0]->send({.channel = 1, .id = id}, sent);
    std::jthread sender(
        [&](std::stop_token stop) { (void)transports[0]->wait(send, Deadline::after(60s), stop); });
    const bool came = transports[1]->wait(receive, Deadline::after(limit)).ok();
    sender.request_stop();
    return came;
  }

  wire::Address address;
  std::unique_ptr<wire::Transport> transports[2];
  std::shared_ptr<wire::Connection> ends[2];
  uint32_t id = 0;
};

TEST_F(NetworkTestbedTest, HostsHaveTheirOwnAddressesAndNothingElse) {
  const NetworkTestbed testbed(3);
  EXPECT_EQ(testbed.address(2), "10.77.0.3");
  const std::string addresses = testbed.run(2, {"ip", "-o", "-4", "addr"});
  EXPECT_NE(addresses.find("10.77.0.3/24"), std::string::npos) << addresses;
  EXPECT_EQ(addresses.find("10.77.0.1/"), std::string::npos) << addresses;
  // No way out: a route to the own network only.
  EXPECT_EQ(testbed.run(2, {"ip", "-4", "route", "show", "default"}), "");
}

TEST_F(NetworkTestbedTest, LinesCarryWhatTheirShapeSays) {
  NetworkTestbed testbed(2, {.bits_per_second = 80e6});
  Pair pair(testbed);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(pair.send(2'000'000, 20s));  // 0.2 s at 10 MB/s, less the queue's 256 kB
  const std::chrono::duration<double> slow = std::chrono::steady_clock::now() - start;
  EXPECT_GT(slow.count(), 0.15);
  testbed.shape(0, {});
  testbed.shape(1, {});
  EXPECT_EQ(testbed.run(0, {"tc", "qdisc", "show", "dev", "eth0"}).find("tbf"), std::string::npos);
}

TEST_F(NetworkTestbedTest, AHostThatIsCutOffComesBack) {
  NetworkTestbed testbed(2);
  Pair pair(testbed);
  ASSERT_TRUE(pair.send(1000, 20s));
  testbed.partition(1);
  EXPECT_FALSE(pair.send(1000, 300ms));
  EXPECT_TRUE(pair.ends[0]->status().ok()) << "nobody is told";
  testbed.restore(1);
  EXPECT_TRUE(pair.send(1000, 30s));
}

TEST_F(NetworkTestbedTest, TwoHostsThatAreCutFromEachOtherReachAThird) {
  NetworkTestbed testbed(3);
  Pair pair(testbed);
  ASSERT_TRUE(pair.send(1000, 20s));
  testbed.partition(0, 1);
  EXPECT_FALSE(pair.send(1000, 300ms));
  // ARP of the third is answered: its neighbours are as they were.
  EXPECT_NE(testbed.run(0, {"sh", "-c", "ip neigh show; true"}).find("02:00:00:00:00:01"),
            std::string::npos);
  testbed.restore(0, 1);
  EXPECT_TRUE(pair.send(1000, 30s));
}

TEST_F(NetworkTestbedTest, NothingIsLeft) {
  std::string path;
  {
    const NetworkTestbed testbed(1);
    path = testbed.enter(0)[1].substr(std::string("--net=").size());
    EXPECT_EQ(std::filesystem::read_symlink(path).string().rfind("net:[", 0), 0u);
  }
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(path)));
}

TEST_F(NetworkTestbedTest, FailuresQuoteTheCommand) {
  const NetworkTestbed testbed(1);
  expect_error_containing(
      [&] {
        testbed.run(0, {"ip", "link", "show", "eth7"});
      },
      ErrorCode::kUnavailable, "eth7");
  expect_error([&] { NetworkTestbed none(0); }, "[network lab] got 0 hosts; expected 1 to 250");
}

}  // namespace
}  // namespace strata::bench
