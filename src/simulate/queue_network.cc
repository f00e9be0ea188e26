#include "simulate/queue_network.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "strata/core/error.h"

namespace strata::simulate {
namespace {

constexpr double kPacketBytes = 64 << 10;  // what the kernel hands to a device at once
constexpr double kMostPackets = 1024;      // of a message
constexpr double kQueuedPackets = 2;       // of a connection, in its host's queue
constexpr double kWindowBytes = 1 << 20;   // of a connection that loses nothing, by and by
constexpr double kWindowPackets = 4;       // at least, of large ones

}  // namespace

int QueueNetwork::add_port(double bytes_per_second) {
  ports_.push_back({.rate = bytes_per_second});
  return static_cast<int>(ports_.size()) - 1;
}

int QueueNetwork::add_connection(std::vector<Share> ports) {
  connections_.push_back({.ports = std::move(ports)});
  return static_cast<int>(connections_.size()) - 1;
}

void QueueNetwork::send(int connection, double bytes, Done left, Done arrived) {
  connections_[static_cast<size_t>(connection)].messages.push_back(
      {.unsent = bytes,
       .packet = std::max(kPacketBytes, bytes / kMostPackets),
       .left = std::move(left),
       .arrived = std::move(arrived)});
  send_what_may(connection);
}

void QueueNetwork::send_what_may(int index) {
  while (true) {
    Connection& connection = connections_[static_cast<size_t>(index)];
    if (connection.messages.empty()) return;
    Message& message = connection.messages.front();
    const double bytes = std::min(message.unsent, message.packet);
    const double in_queue = kQueuedPackets * message.packet;
    const double window = std::max(kWindowBytes, kWindowPackets * message.packet);
    if (connection.queued > 0 && connection.queued + bytes > in_queue) return;
    if (connection.under_way > 0 && connection.under_way + bytes > window) return;
    connection.queued += bytes;
    connection.under_way += bytes;
    message.unsent -= bytes;
    Packet next{.connection = index, .bytes = bytes, .end = events_.now()};
    if (message.unsent <= 0) {
      next.left = std::move(message.left);
      next.arrived = std::move(message.arrived);
      connection.messages.pop_front();
    }
    cross(std::move(next));
  }
}

/// The first byte is at the next port.
void QueueNetwork::cross(Packet packet) {
  const Connection& connection = connections_[static_cast<size_t>(packet.connection)];
  double begin = events_.now();
  if (packet.next < connection.ports.size()) {
    const Share& share = connection.ports[packet.next];
    Port& port = ports_[static_cast<size_t>(share.port)];
    const double bytes = share.weight * packet.bytes;
    port.bytes += bytes;
    if (port.rate > 0) {
      begin = std::max(begin, port.free);
      port.free = begin + bytes / port.rate;
      // Its last byte comes no sooner than from the port before.
      packet.end = port.free = std::max(packet.end, port.free);
    }
  }
  if (packet.next == 0) {
    events_.at(packet.end, [this, index = packet.connection, bytes = packet.bytes,
                            left = std::move(packet.left)] {
      connections_[static_cast<size_t>(index)].queued -= bytes;
      if (left) left();
      send_what_may(index);
    });
    packet.left = nullptr;
  }
  ++packet.next;
  const bool last = packet.next >= connection.ports.size();
  const double time = last ? packet.end : begin;
  events_.at(time, [this, last, packet = std::move(packet)]() mutable {
    if (last) {
      arrive(packet);
    } else {
      cross(std::move(packet));
    }
  });
}

void QueueNetwork::arrive(Packet& packet) {
  connections_[static_cast<size_t>(packet.connection)].under_way -= packet.bytes;
  if (packet.arrived) packet.arrived();
  send_what_may(packet.connection);
}

}  // namespace strata::simulate
