#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "simulate/event_queue.h"

namespace strata::simulate {

/// Bytes on their way through queues, as packets of TCP connections are.
///
/// A port is one direction of a line: a host's way out, its way in. What crosses it waits in one
/// queue, first in, first out, whichever connection it belongs to; so a connection's share of a
/// port is its share of what arrives there. A connection's messages follow one another. They are cut
/// into packets, and a sender's port has but a few packets of each connection in its queue at a
/// time, as Linux has (TCP small queues): so connections of a host take turns there. Behind it
/// nothing holds a packet up but the queue of the next port, and a connection has no more than a
/// window of bytes on its way.
///
/// A packet's first byte is passed on while the rest still comes, as packets do that are shorter
/// than packets. So a message that has all ports for itself takes its bytes over the narrowest.
///
/// One connection can represent several that are alike: at a port it then counts `weight` times.
///
/// Cost: some events a packet, of which a message has at most 1024.
class QueueNetwork {
 public:
  struct Share {
    int port = 0;
    double weight = 1;
  };
  using Done = std::function<void()>;

  explicit QueueNetwork(EventQueue& events) : events_(events) {}

  /// @param bytes_per_second  0: no limit.
  int add_port(double bytes_per_second);
  /// @param ports  What its bytes cross, from the sender on.
  int add_connection(std::vector<Share> ports);

  /// Sends a message behind the connection's earlier ones.
  /// @param left  The last byte is out of the first port.
  /// @param arrived  It is out of the last one.
  void send(int connection, double bytes, Done left, Done arrived);

  /// The bytes that have left, each with its weight.
  double bytes_through(int port) const { return ports_[static_cast<size_t>(port)].bytes; }

 private:
  struct Port {
    double rate = 0;
    double bytes = 0;
    double free = 0;  // time from which on it has nothing to do
  };
  struct Message {
    double unsent = 0;
    double packet = 0;  // bytes
    Done left = {};
    Done arrived = {};
  };
  struct Connection {
    std::vector<Share> ports = {};
    std::deque<Message> messages = {};
    double queued = 0;  // in the first port's queue
    double under_way = 0;
  };
  /// On its way over a connection's ports.
  struct Packet {
    int connection = 0;
    size_t next = 0;  // port
    double bytes = 0;
    double end = 0;  // of its last byte at the ports so far
    Done left = {};
    Done arrived = {};
  };

  void send_what_may(int connection);
  void cross(Packet packet);
  void arrive(Packet& packet);

  EventQueue& events_;
  std::vector<Port> ports_;
  std::vector<Connection> connections_;
};

}  // namespace strata::simulate
