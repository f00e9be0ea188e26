#include "simulate/tcp_network.h"

#include <algorithm>
#include <utility>

namespace strata::simulate {
namespace {

constexpr int64_t kSegment = 1448;              // bytes of payload in a frame of Ethernet
constexpr int64_t kMostAtOnce = 44 * kSegment;  // that the kernel hands to a device as one
constexpr double kFirstWindow = 10 * kSegment;
constexpr double kLeastWindow = 2 * kSegment;
constexpr double kLeastTimeout = 0.2;     // seconds
constexpr double kLeastProbeTime = 2e-3;  // seconds, beside two round trips

}  // namespace

int TcpNetwork::add_port(double bytes_per_second, double queue_bytes) {
  ports_.push_back({.rate = bytes_per_second, .most_bytes = queue_bytes});
  return static_cast<int>(ports_.size()) - 1;
}

int TcpNetwork::add_connection(const Way& way) {
  connections_.push_back({.way = way, .window = kFirstWindow});
  return static_cast<int>(connections_.size()) - 1;
}

void TcpNetwork::send(int index, double bytes, Done arrived) {
  Connection& self = connection(index);
  self.length += std::max<int64_t>(1, static_cast<int64_t>(bytes));
  self.messages.push_back({self.length, std::move(arrived)});
  send_what_may(index);
}

void TcpNetwork::begin_anew_after_idling(Connection& self) {
  double idle = events_.now() - self.last_sent - self.round_trip;
  if (!self.outstanding.empty() || idle <= kLeastTimeout) return;
  self.threshold = std::max(self.threshold, 0.75 * self.window);
  for (; idle > kLeastTimeout && self.window > kFirstWindow; idle -= kLeastTimeout) {
    self.window = std::max(self.window / 2, kFirstWindow);
  }
}

/// How much may be sent now at once; 0: nothing.
int64_t TcpNetwork::next_bytes(const Connection& self) const {
  const int64_t left = self.lost.empty() ? self.length - self.sent : self.lost.begin()->second;
  if (left == 0 || self.bytes_queued > kMostAtOnce) return 0;
  const int64_t bytes = std::min(left, kMostAtOnce);
  const double space = self.window - static_cast<double>(self.bytes_outstanding);
  if (static_cast<double>(bytes) <= space) return bytes;
  const int64_t segments = static_cast<int64_t>(std::max(0.0, space)) / kSegment;
  if (self.bytes_outstanding == 0) return std::max<int64_t>(1, segments) * kSegment;
  // It waits for a third of the window rather than send little.
  return space < self.window / 3 ? 0 : segments * kSegment;
}

void TcpNetwork::send_what_may(int index) {
  Connection& self = connection(index);
  begin_anew_after_idling(self);
  for (int64_t bytes = next_bytes(self); bytes > 0; bytes = next_bytes(self)) {
    Packet packet{.number = self.next_number++, .bytes = bytes};
    if (self.lost.empty()) {
      packet.offset = self.sent;
      packet.bytes = std::min(bytes, self.length - self.sent);
      self.sent += packet.bytes;
    } else {
      const auto [offset, lost] = *self.lost.begin();
      packet.offset = offset;
      packet.bytes = std::min(bytes, lost);
      self.lost.erase(self.lost.begin());
      if (lost > packet.bytes) self.lost.emplace(offset + packet.bytes, lost - packet.bytes);
    }
    transmit(index, packet);
  }
}

/// Into the queue of the sender's host. The first byte is at the switch while the last one still
/// waits.
void TcpNetwork::transmit(int index, Packet packet) {
  Connection& self = connection(index);
  Port& out = port(self.way.out);
  double begin = events_.now();
  packet.sent_at = self.last_sent = packet.end = begin;
  if (out.rate > 0) {
    begin = std::max(begin, out.free);
    packet.end = out.free = begin + static_cast<double>(packet.bytes) / out.rate;
  }
  self.outstanding.push_back(packet);
  self.bytes_outstanding += packet.bytes;
  self.bytes_queued += packet.bytes;
  ++self.in_network;
  events_.at(packet.end, [this, index, bytes = packet.bytes] {
    connection(index).bytes_queued -= bytes;
    send_what_may(index);
  });
  events_.at(begin, [this, index, packet] { enter_switch(index, packet); });
}

void TcpNetwork::enter_switch(int index, Packet packet) {
  Connection& self = connection(index);
  Port& in = port(self.way.in);
  if (in.rate > 0) {
    const auto bytes = static_cast<double>(packet.bytes);
    const double waiting = std::max(0.0, in.free - events_.now()) * in.rate;
    if (in.most_bytes > 0 && waiting > 0 && waiting + bytes > in.most_bytes) {
      bytes_lost_ += packet.bytes;
      --self.in_network;
      probe_if_silent(index);
      return;
    }
    const double begin = std::max(events_.now(), in.free);
    packet.end = in.free = std::max(packet.end, begin + bytes / in.rate);
  }
  events_.at(packet.end + self.way.latency, [this, index, packet] { deliver(index, packet); });
}

void TcpNetwork::deliver(int index, const Packet& packet) {
  Connection& self = connection(index);
  const double queues =
      std::max({events_.now(), port(self.way.back_out).free, port(self.way.back_in).free});
  self.last_acknowledged = std::max(queues + self.way.latency, self.last_acknowledged);
  events_.at(self.last_acknowledged, [this, index, packet] { acknowledge(index, packet); });

  int64_t& to = self.behind_gaps[packet.offset];
  to = std::max(to, packet.offset + packet.bytes);
  while (!self.behind_gaps.empty() && self.behind_gaps.begin()->first <= self.delivered) {
    self.delivered = std::max(self.delivered, self.behind_gaps.begin()->second);
    self.behind_gaps.erase(self.behind_gaps.begin());
  }
  std::vector<Done> arrived;
  while (!self.messages.empty() && self.messages.front().end <= self.delivered) {
    arrived.push_back(std::move(self.messages.front().arrived));
    self.messages.pop_front();
  }
  for (const Done& each : arrived) each();
}

void TcpNetwork::acknowledge(int index, const Packet& packet) {
  Connection& self = connection(index);
  const double sample = events_.now() - packet.sent_at;
  self.round_trip = self.round_trip == 0 ? sample : 0.875 * self.round_trip + 0.125 * sample;
  --self.in_network;
  const int64_t outstanding = self.bytes_outstanding;
  // Nothing overtakes: what was sent before and has not come is lost.
  while (!self.outstanding.empty() && self.outstanding.front().number < packet.number) {
    lose_first(self);
  }
  if (!self.outstanding.empty() && self.outstanding.front().number == packet.number) {
    self.outstanding.pop_front();
    self.bytes_outstanding -= packet.bytes;
    // A window that is not used does not grow.
    const bool slow_start = self.window < self.threshold;
    const double used =
        static_cast<double>(slow_start ? 2 * outstanding : outstanding + 2 * kMostAtOnce);
    if (packet.number >= self.recovered_at && used >= self.window) grow_window(self, packet);
  }
  send_what_may(index);
  probe_if_silent(index);
}

void TcpNetwork::grow_window(Connection& self, const Packet& packet) {
  const auto bytes = static_cast<double>(packet.bytes);
  self.window +=
      self.window < self.threshold ? bytes : static_cast<double>(kSegment) * bytes / self.window;
}

void TcpNetwork::lose_first(Connection& self) {
  const Packet& packet = self.outstanding.front();
  self.bytes_outstanding -= packet.bytes;
  self.lost.emplace(packet.offset, packet.bytes);
  if (packet.number >= self.recovered_at) {
    self.window = self.threshold = std::max(self.window / 2, kLeastWindow);
    self.recovered_at = self.next_number;
  }
  self.outstanding.pop_front();
}

/// Where no acknowledgement will come, since all that is outstanding is lost, a probe shows it.
void TcpNetwork::probe_if_silent(int index) {
  Connection& self = connection(index);
  if (self.in_network > 0 || self.outstanding.empty()) return;
  const double wait = 2 * self.round_trip + kLeastProbeTime;
  events_.at(events_.now() + wait, [this, index, last = self.next_number] {
    Connection& silent = connection(index);
    if (silent.in_network > 0 || silent.next_number != last) return;
    while (!silent.outstanding.empty()) lose_first(silent);
    send_what_may(index);
  });
}

}  // namespace strata::simulate
