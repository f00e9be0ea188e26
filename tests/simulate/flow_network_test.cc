#include "simulate/flow_network.h"

#include <gtest/gtest.h>

#include <vector>

namespace strata::simulate {
namespace {

TEST(FlowNetworkTest, AFlowTakesItsBytesOverTheNarrowestPort) {
  EventQueue events;
  FlowNetwork network(events);
  const int wide = network.add_port(100);
  const int narrow = network.add_port(25);
  double end = -1;
  network.start({{wide}, {narrow}}, 50, [&] { end = events.now(); });
  events.run();
  EXPECT_DOUBLE_EQ(end, 2);
  EXPECT_DOUBLE_EQ(network.bytes_through(wide), 50);
  EXPECT_DOUBLE_EQ(network.bytes_through(narrow), 50);
  EXPECT_DOUBLE_EQ(network.busy_seconds(narrow), 2);
}

TEST(FlowNetworkTest, WhatAnEndedFlowLeavesIsTheOthers) {
  EventQueue events;
  FlowNetwork network(events);
  const int port = network.add_port(100);
  std::vector<double> ends;
  network.start({{port}}, 100, [&] { ends.push_back(events.now()); });
  network.start({{port}}, 300, [&] { ends.push_back(events.now()); });
  events.run();
  EXPECT_EQ(ends, (std::vector<double>{2, 4}));
}

TEST(FlowNetworkTest, ALaterFlowTakesItsShare) {
  EventQueue events;
  FlowNetwork network(events);
  const int port = network.add_port(10);
  std::vector<double> ends;
  network.start({{port}}, 30, [&] { ends.push_back(events.now()); });
  events.at(1, [&] { network.start({{port}}, 10, [&] { ends.push_back(events.now()); }); });
  events.run();
  // 10 bytes in the first second, then 5 a second each: 10 more by 3 s, and 10 alone.
  EXPECT_EQ(ends, (std::vector<double>{3, 4}));
}

TEST(FlowNetworkTest, RatesAreMaxMinFair) {
  EventQueue events;
  FlowNetwork network(events);
  const int first = network.add_port(10);
  const int second = network.add_port(4);
  double only_first = 0;
  double both = 0;
  double only_second = 0;
  // Rates 8, 2, 2: the second port divides its 4, the first gives the rest to the flow that can use
  // it.
  network.start({{first}}, 8, [&] { only_first = events.now(); });
  network.start({{first}, {second}}, 2, [&] { both = events.now(); });
  network.start({{second}}, 2, [&] { only_second = events.now(); });
  events.run();
  EXPECT_DOUBLE_EQ(only_first, 1);
  EXPECT_DOUBLE_EQ(both, 1);
  EXPECT_DOUBLE_EQ(only_second, 1);
}

TEST(FlowNetworkTest, AWeightCountsAsSoManyFlows) {
  for (const int senders : {1, 3, 128}) {
    EventQueue events;
    FlowNetwork network(events);
    const int into_server = network.add_port(100);
    double separate = 0;
    for (int i = 0; i < senders; ++i) {
      const int out = network.add_port(70);
      network.start({{out}, {into_server}}, 10, [&] { separate = events.now(); });
    }
    events.run();

    EventQueue grouped_events;
    FlowNetwork grouped(grouped_events);
    const int server = grouped.add_port(100);
    const int out = grouped.add_port(70);
    double together = 0;
    grouped.start({{out}, {server, static_cast<double>(senders)}}, 10,
                  [&] { together = grouped_events.now(); });
    grouped_events.run();
    EXPECT_NEAR(together, separate, 1e-9 * separate) << senders;
    EXPECT_DOUBLE_EQ(grouped.bytes_through(server), network.bytes_through(into_server));
  }
}

TEST(FlowNetworkTest, NothingAndUnlimitedPortsTakeNoTime) {
  EventQueue events;
  FlowNetwork network(events);
  const int unlimited = network.add_port(0);
  const int limited = network.add_port(1);
  int ended = 0;
  network.start({{unlimited}}, 1e9, [&] { ++ended; });
  network.start({{limited}}, 0, [&] { ++ended; });
  events.run();
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(events.now(), 0);
  EXPECT_EQ(network.bytes_through(unlimited), 1e9);
}

TEST(EventQueueTest, OneTimeRunsInTheOrderOfAdding) {
  EventQueue events;
  std::vector<int> order;
  events.at(2, [&] { order.push_back(3); });
  events.at(1, [&] {
    order.push_back(1);
    events.when_time_advances([&] { order.push_back(2); });
    events.at(0.5, [&] { order.push_back(10); });  // the past is now
  });
  events.run();
  EXPECT_EQ(order, (std::vector<int>{1, 10, 2, 3}));
  EXPECT_EQ(events.now(), 2);
}

}  // namespace
}  // namespace strata::simulate
