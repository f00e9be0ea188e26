#include "simulate/queue_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace strata::simulate {
namespace {

constexpr double kMega = 1e6;

/// A network, and when messages are through.
class QueueNetworkTest : public ::testing::Test {
 protected:
  double end_of(int connection, double bytes) {
    double end = -1;
    network_.send(connection, bytes, {}, [&] { end = events_.now(); });
    events_.run();
    return end;
  }
  /// Sends now; `times[i]` is when the last byte has arrived.
  void send(int connection, double bytes, std::vector<double>& times) {
    const size_t index = times.size();
    times.push_back(-1);
    network_.send(connection, bytes, {}, [this, &times, index] { times[index] = events_.now(); });
  }

  EventQueue events_;
  QueueNetwork network_{events_};
};

TEST_F(QueueNetworkTest, AMessageAloneTakesItsBytesOverTheNarrowestPort) {
  const int out = network_.add_port(100 * kMega);
  const int between = network_.add_port(25 * kMega);
  const int in = network_.add_port(50 * kMega);
  const int connection = network_.add_connection({{out}, {between}, {in}});
  EXPECT_NEAR(end_of(connection, 10), 10 / (25 * kMega), 1e-12);
  EXPECT_NEAR(end_of(connection, 50 * kMega), 10 / (25 * kMega) + 2, 1e-9);
  EXPECT_NEAR(network_.bytes_through(out), 50 * kMega + 10, 1e-6);
  EXPECT_NEAR(network_.bytes_through(in), 50 * kMega + 10, 1e-6);
}

TEST_F(QueueNetworkTest, WithoutALimitOrWithoutBytesItIsThereNow) {
  const int free = network_.add_connection({{network_.add_port(0)}});
  EXPECT_EQ(end_of(free, kMega), 0);
  const int nothing = network_.add_connection({{network_.add_port(1)}});
  EXPECT_EQ(end_of(nothing, 0), 0);
  EXPECT_EQ(end_of(network_.add_connection({}), kMega), 0);
}

TEST_F(QueueNetworkTest, MessagesOfAConnectionFollowOneAnother) {
  const int connection = network_.add_connection({{network_.add_port(kMega)}});
  std::vector<double> times;
  send(connection, 3 * kMega, times);
  send(connection, 0, times);
  send(connection, kMega, times);
  events_.run();
  EXPECT_NEAR(times[0], 3, 1e-9);
  EXPECT_NEAR(times[1], 3, 1e-9);
  EXPECT_NEAR(times[2], 4, 1e-9);
}

TEST_F(QueueNetworkTest, ConnectionsOfAHostTakeTurns) {
  const int out = network_.add_port(kMega);
  std::vector<double> times;
  for (int i = 0; i < 4; ++i) send(network_.add_connection({{out}}), kMega, times);
  events_.run();
  for (const double time : times) {
    EXPECT_GT(time, 3.5);
    EXPECT_LT(time, 4 + 1e-9);
  }
  EXPECT_NEAR(*std::ranges::max_element(times), 4, 1e-9);
}

TEST_F(QueueNetworkTest, WhatCameFirstGoesFirst) {
  const int in = network_.add_port(kMega);
  const int first = network_.add_connection({{network_.add_port(2 * kMega)}, {in}});
  const int second = network_.add_connection({{network_.add_port(2 * kMega)}, {in}});
  std::vector<double> times;
  send(first, 0.5 * kMega, times);  // in the queue at 0.25 s
  events_.at(0.3, [&] { send(second, 1000, times); });
  events_.run();
  EXPECT_NEAR(times[0], 0.5, 1e-9);
  EXPECT_NEAR(times[1], 0.501, 1e-9);  // shared fairly it were there at 0.302
}

TEST_F(QueueNetworkTest, AConnectionThatSharesBothItsLinesGetsLessThanAFairShare) {
  const int out = network_.add_port(kMega);
  const int in = network_.add_port(kMega);
  const int both = network_.add_connection({{out}, {in}});
  const int only_out = network_.add_connection({{out}});
  const int only_in = network_.add_connection({{network_.add_port(kMega)}, {in}});
  std::vector<double> times;
  send(both, 10 * kMega, times);
  send(only_out, 40 * kMega, times);
  send(only_in, 40 * kMega, times);
  events_.run();
  // Its window is in two queues, those of the others are in one. Max-min fair it were 20.
  EXPECT_GT(times[0], 22);
  EXPECT_LE(times[0], 31);
  EXPECT_NEAR(*std::ranges::max_element(times), 50, 1);
}

TEST_F(QueueNetworkTest, AWindowHoldsASenderBack) {
  const int connection =
      network_.add_connection({{network_.add_port(100 * kMega)}, {network_.add_port(kMega)}});
  double left = 0;
  double arrived = 0;
  network_.send(
      connection, 10 * kMega, [&] { left = events_.now(); }, [&] { arrived = events_.now(); });
  events_.run();
  EXPECT_NEAR(arrived, 10, 1e-9);
  EXPECT_GT(left, 8.5);
  EXPECT_LT(left, 9.5);
}

TEST_F(QueueNetworkTest, OneConnectionCountsAsSeveral) {
  const int out = network_.add_port(kMega);
  EXPECT_NEAR(end_of(network_.add_connection({{out, 3}}), kMega), 3, 1e-9);
  EXPECT_NEAR(network_.bytes_through(out), 3 * kMega, 1e-3);
}

}  // namespace
}  // namespace strata::simulate
