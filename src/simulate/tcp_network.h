#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <vector>

#include "simulate/event_queue.h"

namespace strata::simulate {

/// Bytes on their way over TCP connections whose packets are lost where too many meet, as those of
/// parameter servers are: many send to one host, and the switch's queue for it fills.
///
/// A port is one direction of a host's line with a queue in front of it, first in, first out. A
/// packet that finds a full queue is lost. Senders are as Linux has them. Their windows are Reno's
/// (RFC 5681): slow start, one segment more a round trip, half of it after a loss, which the next
/// acknowledgement shows (RFC 8985), or a probe where none comes. After 0.2 s without sending they
/// begin anew with ten segments (RFC 6928), up to the window that they had. A host's own queue has
/// two packets of each connection at a time (TCP small queues), of up to 44 segments, so that
/// nothing is lost there. Acknowledgements wait in the queues of the way back.
///
/// So windows, and with them shares of lines, differ from connection to connection and for long, and
/// a line is not full while one with a small window is the last, or begins anew behind full queues.
/// Max-min fair shares (`FlowNetwork`) know neither.
///
/// Cost: three to four events for 64 kB.
class TcpNetwork {
 public:
  using Done = std::function<void()>;

  explicit TcpNetwork(EventQueue& events) : events_(events) {}

  /// @param bytes_per_second  of payload; 0: no limit.
  /// @param queue_bytes  What waits at most; 0: no limit.
  int add_port(double bytes_per_second, double queue_bytes);

  /// What a connection crosses. Its sender's host has `out` and, for acknowledgements, `back_in`.
  struct Way {
    int out = 0;
    int in = 0;
    int back_out = 0;
    int back_in = 0;
    double latency = 0;  ///< each way
  };
  int add_connection(const Way& way);

  /// Sends a message behind the connection's earlier ones; `arrived` runs when its last byte is
  /// there.
  void send(int connection, double bytes, Done arrived);

  /// What was sent in vain.
  int64_t bytes_lost() const { return bytes_lost_; }

 private:
  struct Port {
    double rate = 0;
    double most_bytes = 0;
    double free = 0;  // time from which on it has nothing to do
  };
  struct Packet {
    int64_t number = 0;  // in the order of sending
    int64_t offset = 0;  // in the stream
    int64_t bytes = 0;
    double sent_at = 0;
    double end = 0;  // of its last byte at the ports so far
  };
  struct Message {
    int64_t end = 0;  // offset
    Done arrived = {};
  };
  struct Connection {
    Way way = {};
    // The stream, at the sender and at the receiver.
    int64_t length = 0;
    int64_t sent = 0;
    int64_t delivered = 0;                        // without a gap
    std::map<int64_t, int64_t> behind_gaps = {};  // from, to
    std::deque<Message> messages = {};
    // Packets.
    int64_t next_number = 0;
    std::deque<Packet> outstanding = {};   // neither acknowledged nor known to be lost
    std::map<int64_t, int64_t> lost = {};  // to be sent again: offset, bytes
    int64_t bytes_outstanding = 0;
    int64_t bytes_queued = 0;  // at the first port
    int in_network = 0;        // and not lost
    // Congestion control.
    double window = 0;
    double threshold = std::numeric_limits<double>::infinity();  // of slow start
    int64_t recovered_at = 0;  // earlier packets belong to a loss that has halved the window
    double round_trip = 0;
    double last_sent = 0;
    double last_acknowledged = 0;
  };

  Connection& connection(int index) { return connections_[static_cast<size_t>(index)]; }
  Port& port(int index) { return ports_[static_cast<size_t>(index)]; }

  void begin_anew_after_idling(Connection& self);
  int64_t next_bytes(const Connection& self) const;
  void send_what_may(int index);
  void transmit(int index, Packet packet);
  void enter_switch(int index, Packet packet);
  void deliver(int index, const Packet& packet);
  void acknowledge(int index, const Packet& packet);
  void grow_window(Connection& self, const Packet& packet);
  void lose_first(Connection& self);
  void probe_if_silent(int index);

  EventQueue& events_;
  std::vector<Port> ports_;
  std::vector<Connection> connections_;
  int64_t bytes_lost_ = 0;
};

}  // namespace strata::simulate
