#include "simulate/tcp_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace strata::simulate {
namespace {

constexpr double kMegabyte = 1e6;
constexpr double kSegment = 1448;

/// Hosts on a switch.
class TcpNetworkTest : public ::testing::Test {
 protected:
  struct Host {
    int out;
    int in;
  };
  Host add_host(double rate, double queue_bytes = 0) {
    return {network_.add_port(rate, 0), network_.add_port(rate, queue_bytes)};
  }
  int connect(const Host& from, const Host& to, double latency = 0) {
    return network_.add_connection(
        {.out = from.out, .in = to.in, .back_out = to.out, .back_in = from.in, .latency = latency});
  }
  /// Seconds from now until it is there, with nothing else on the way.
  double seconds_of(int connection, double bytes) {
    const double begin = events_.now();
    double end = -1;
    network_.send(connection, bytes, [&] { end = events_.now(); });
    events_.run();
    return end - begin;
  }

  EventQueue events_;
  TcpNetwork network_{events_};
};

TEST_F(TcpNetworkTest, AMessageAloneTakesItsBytes) {
  const int connection = connect(add_host(100 * kMegabyte), add_host(50 * kMegabyte));
  EXPECT_NEAR(seconds_of(connection, 50 * kMegabyte), 1, 1e-3);
  EXPECT_EQ(network_.bytes_lost(), 0);
}

TEST_F(TcpNetworkTest, WithoutALimitItIsThereAfterTheLatency) {
  const int connection = connect(add_host(0), add_host(0), 0.25);
  EXPECT_NEAR(seconds_of(connection, 1000), 0.25, 1e-9);
  EXPECT_NEAR(seconds_of(connection, 0), 0.25, 1e-9);
}

TEST_F(TcpNetworkTest, AWindowDoublesEachRoundTripAndIdlingEndsIt) {
  constexpr double kLatency = 0.1;
  const int connection = connect(add_host(0), add_host(0), kLatency);
  // Ten segments, then twenty: there after one and three latencies.
  EXPECT_NEAR(seconds_of(connection, 10 * kSegment), kLatency, 1e-9);
  EXPECT_NEAR(seconds_of(connection, 20 * kSegment), kLatency, 1e-9);
  events_.at(events_.now() + 10, [] {});
  events_.run();
  EXPECT_NEAR(seconds_of(connection, 11 * kSegment), 3 * kLatency, 1e-9);
}

TEST_F(TcpNetworkTest, AFullQueueLosesPacketsWhichAreSentAgain) {
  constexpr int kSenders = 7;
  constexpr double kRate = 50 * kMegabyte;
  constexpr double kBytes = 10 * kMegabyte;
  const Host server = add_host(kRate, 0.01 * kRate);
  std::vector<double> ends;
  std::vector<int> order;
  for (int i = 0; i < kSenders; ++i) {
    const int connection = connect(add_host(kRate), server, 20e-6);
    for (int message = 0; message < 10; ++message) {
      network_.send(connection, kBytes / 10, [this, &ends, &order, i, message] {
        if (i == 0) order.push_back(message);
        ends.push_back(events_.now());
      });
    }
  }
  events_.run();
  EXPECT_EQ(ends.size(), 10U * kSenders);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_GT(network_.bytes_lost(), 0);
  const double least = kSenders * kBytes / kRate;
  EXPECT_GE(*std::ranges::max_element(ends), least);
  EXPECT_LT(*std::ranges::max_element(ends), 1.25 * least);
}

TEST_F(TcpNetworkTest, ALostTailIsFoundByAProbe) {
  const Host server = add_host(kMegabyte, 15 * kSegment);
  std::vector<double> ends;
  for (int i = 0; i < 2; ++i) {
    // The second one's only packet finds the first one's in the queue.
    network_.send(connect(add_host(100 * kMegabyte), server), 10 * kSegment,
                  [&] { ends.push_back(events_.now()); });
  }
  events_.run();
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_GT(network_.bytes_lost(), 0);
  EXPECT_NEAR(ends[0], 10 * kSegment / kMegabyte, 1e-9);
  EXPECT_GE(ends[1], 20 * kSegment / kMegabyte - 1e-9);
  EXPECT_LT(ends[1], 25 * kSegment / kMegabyte);
}

TEST_F(TcpNetworkTest, AcknowledgementsWaitInTheQueuesOfTheWayBack) {
  constexpr double kRate = 10 * kMegabyte;
  const Host a = add_host(kRate);
  const Host b = add_host(kRate);
  const Host c = add_host(100 * kMegabyte);
  const int forward = connect(a, b);
  const double alone = seconds_of(forward, 60 * kSegment);
  // What c sends to a is in front of the acknowledgements.
  network_.send(connect(c, a), 20 * kMegabyte, [] {});
  events_.at(events_.now() + 1, [] {});
  double end = -1;
  const double begin = events_.now() + 1;
  events_.at(begin, [&] { network_.send(forward, 60 * kSegment, [&] { end = events_.now(); }); });
  events_.run();
  EXPECT_GT(end - begin, 1.5 * alone);
}

}  // namespace
}  // namespace strata::simulate
