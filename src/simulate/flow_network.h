#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "simulate/event_queue.h"

namespace strata::simulate {

/// Bytes on their way over ports that share their rate fairly, as TCP connections do in the long
/// run.
///
/// A port is one direction of a line: a host's way out, its way in. A flow crosses some ports.
/// Rates are max-min fair: of the flows of the fullest port each has the same rate, what they leave
/// of other ports is shared by the flows of these, and so on; no flow can have more without taking
/// from one that has no more. They are computed anew whenever flows begin or end, for those flows
/// alone that are connected with them by ports.
///
/// One flow can represent several that are alike: at a port it then counts `weight` times. So a
/// network of identical hosts is simulated by one of each kind, with the same result.
///
/// Cost: a change of rates is about (ports + flows) of the connected part, for each different rate.
class FlowNetwork {
 public:
  struct Share {
    int port = 0;
    double weight = 1;
  };
  using Done = std::function<void()>;

  explicit FlowNetwork(EventQueue& events) : events_(events) {}

  /// @param bytes_per_second  0: no limit.
  int add_port(double bytes_per_second);

  /// Begins to move `bytes`; `done` runs when the last one has left. Without a limited port, or
  /// without bytes, that is now.
  void start(const std::vector<Share>& ports, double bytes, Done done);

  /// The bytes of flows that have ended, each with its weight.
  double bytes_through(int port) const { return ports_[static_cast<size_t>(port)].bytes; }
  /// How long at least one flow was there.
  double busy_seconds(int port) const { return ports_[static_cast<size_t>(port)].busy; }

 private:
  static constexpr int kMostPorts = 3;

  struct Port {
    double rate = 0;
    double bytes = 0;
    double busy = 0;
    double busy_since = 0;
    std::vector<int> flows = {};
    // while rates are computed
    int64_t seen = 0;
    double left = 0;
    double weight = 0;
  };
  struct Crossing {
    int port = -1;
    double weight = 0;
    size_t place = 0;  // in the port's flows
  };
  struct Flow {
    Crossing ports[kMostPorts] = {};
    int num_ports = 0;
    double bytes = 0;
    double left = 0;
    double rate = 0;
    double since = 0;  // of this rate
    uint32_t version = 0;
    int64_t seen = 0;
    bool fixed = false;
    Done done = {};
  };

  void changed(int port);
  void settle();
  void collect();
  void fill();
  void set_rate(int flow, double rate);
  void finish(int flow, uint32_t version);

  EventQueue& events_;
  std::vector<Port> ports_;
  std::vector<Flow> flows_;
  std::vector<int> unused_;
  std::vector<int> changed_;
  // The connected part whose rates are computed.
  int64_t round_ = 0;
  std::vector<int> part_ports_;
  std::vector<int> part_flows_;
};

}  // namespace strata::simulate
