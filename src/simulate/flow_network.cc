#include "simulate/flow_network.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "strata/core/error.h"

namespace strata::simulate {

int FlowNetwork::add_port(double bytes_per_second) {
  ports_.push_back({.rate = bytes_per_second});
  return static_cast<int>(ports_.size()) - 1;
}

void FlowNetwork::start(const std::vector<Share>& ports, double bytes, Done done) {
  int index = static_cast<int>(flows_.size());
  if (unused_.empty()) {
    flows_.emplace_back();
  } else {
    index = unused_.back();
    unused_.pop_back();
  }
  Flow& flow = flows_[static_cast<size_t>(index)];
  flow.num_ports = 0;
  flow.bytes = flow.left = bytes;
  flow.rate = 0;
  flow.since = events_.now();
  flow.done = std::move(done);
  for (const Share& share : ports) {
    Port& port = ports_[static_cast<size_t>(share.port)];
    if (port.rate == 0 || bytes == 0) {
      port.bytes += share.weight * bytes;
      continue;
    }
    STRATA_DCHECK(flow.num_ports < kMostPorts);
    flow.ports[flow.num_ports++] = {share.port, share.weight, port.flows.size()};
    if (port.flows.empty()) port.busy_since = events_.now();
    port.flows.push_back(index);
    changed(share.port);
  }
  if (flow.num_ports == 0) {
    const uint32_t version = ++flow.version;
    events_.at(events_.now(), [this, index, version] { finish(index, version); });
  }
}

void FlowNetwork::changed(int port) {
  if (changed_.empty()) events_.when_time_advances([this] { settle(); });
  changed_.push_back(port);
}

void FlowNetwork::settle() {
  collect();
  fill();
}

/// The ports and flows that are connected with what has changed.
void FlowNetwork::collect() {
  ++round_;
  part_ports_.clear();
  part_flows_.clear();
  const auto add_port = [&](int index) {
    Port& port = ports_[static_cast<size_t>(index)];
    if (port.seen == round_) return;
    port.seen = round_;
    port.left = port.rate;
    port.weight = 0;
    part_ports_.push_back(index);
  };
  for (const int port : changed_) add_port(port);
  changed_.clear();
  for (size_t next = 0; next < part_ports_.size(); ++next) {
    for (const int index : ports_[static_cast<size_t>(part_ports_[next])].flows) {
      Flow& flow = flows_[static_cast<size_t>(index)];
      if (flow.seen == round_) continue;
      flow.seen = round_;
      flow.fixed = false;
      part_flows_.push_back(index);
      for (int i = 0; i < flow.num_ports; ++i) {
        add_port(flow.ports[i].port);
        ports_[static_cast<size_t>(flow.ports[i].port)].weight += flow.ports[i].weight;
      }
    }
  }
}

/// Again and again the port that has least for each of its flows gives them that.
void FlowNetwork::fill() {
  constexpr double kEqual = 1 + 1e-12;
  size_t unfixed = part_flows_.size();
  while (unfixed > 0) {
    double least = std::numeric_limits<double>::infinity();
    for (const int index : part_ports_) {
      const Port& port = ports_[static_cast<size_t>(index)];
      if (port.weight > 0) least = std::min(least, std::max(0.0, port.left) / port.weight);
    }
    for (const int index : part_ports_) {
      Port& port = ports_[static_cast<size_t>(index)];
      if (port.weight <= 0 || std::max(0.0, port.left) / port.weight > least * kEqual) continue;
      for (const int flow_index : port.flows) {
        Flow& flow = flows_[static_cast<size_t>(flow_index)];
        if (flow.fixed) continue;
        flow.fixed = true;
        --unfixed;
        for (int i = 0; i < flow.num_ports; ++i) {
          Port& crossed = ports_[static_cast<size_t>(flow.ports[i].port)];
          crossed.left -= flow.ports[i].weight * least;
          crossed.weight -= flow.ports[i].weight;
        }
        set_rate(flow_index, least);
      }
      port.weight = 0;  // but for rounding it is
    }
  }
}

void FlowNetwork::set_rate(int index, double rate) {
  Flow& flow = flows_[static_cast<size_t>(index)];
  if (flow.rate == rate) return;
  flow.left -= flow.rate * (events_.now() - flow.since);
  flow.rate = rate;
  flow.since = events_.now();
  const uint32_t version = ++flow.version;
  const double seconds = std::max(0.0, flow.left) / rate;
  events_.at(events_.now() + seconds, [this, index, version] { finish(index, version); });
}

void FlowNetwork::finish(int index, uint32_t version) {
  Flow& flow = flows_[static_cast<size_t>(index)];
  if (flow.version != version) return;  // its rate has changed since
  ++flow.version;
  for (int i = 0; i < flow.num_ports; ++i) {
    const Crossing& crossing = flow.ports[i];
    Port& port = ports_[static_cast<size_t>(crossing.port)];
    port.bytes += crossing.weight * flow.bytes;
    const int moved = port.flows.back();
    port.flows[crossing.place] = moved;
    port.flows.pop_back();
    Flow& other = flows_[static_cast<size_t>(moved)];
    for (int k = 0; k < other.num_ports; ++k) {
      if (other.ports[k].port == crossing.port) other.ports[k].place = crossing.place;
    }
    if (port.flows.empty()) port.busy += events_.now() - port.busy_since;
    changed(crossing.port);
  }
  const Done done = std::move(flow.done);
  flow.done = nullptr;
  unused_.push_back(index);
  done();
}

}  // namespace strata::simulate
