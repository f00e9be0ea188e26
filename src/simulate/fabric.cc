#include "simulate/fabric.h"

#include <algorithm>
#include <set>
#include <utility>

#include "strata/core/error.h"

namespace strata::simulate {
namespace {

// Of a rank's messages, before the next one begins: what src/collective/wire/message_executor.cc
// leaves, 128 KiB, and what a socket's buffer holds, which the executor counts as sent.
constexpr double kSendWindow = 512 << 10;

}  // namespace

using collective::LinkModel;
using collective::Placement;

Fabric::Fabric(EventQueue& events, Placement placement, LinkModel links)
    : events_(events),
      network_(events),
      placement_(std::move(placement)),
      links_(std::move(links)) {
  const auto n = static_cast<size_t>(placement_.num_ranks());
  STRATA_CHECK(links_.ranks_per_processor == 1, kInvalidArgument, "[simulate] links: got ",
               links_.ranks_per_processor,
               " ranks a processor; expected 1: simulated ranks have a processor each");
  STRATA_CHECK(links_.pairs.empty() || links_.pairs.size() == n * n, kInvalidArgument,
               "[simulate] links: got ", links_.pairs.size(), " pairs; expected ", n * n,
               ", one for each two of ", n, " ranks, or none");
  std::map<int, int> hosts;
  for (const int host : placement_.host_of_rank) {
    host_.push_back(hosts.try_emplace(host, static_cast<int>(hosts.size())).first->second);
  }
  out_rate_ = links_.across_hosts.bytes_per_second;
  in_host_rate_ = links_.in_host.bytes_per_second;
  if (!links_.pairs.empty()) {
    out_rate_ = in_host_rate_ = 0;
    for (size_t from = 0; from < n; ++from) {
      for (size_t to = 0; to < n; ++to) {
        double& rate = host_[from] == host_[to] ? in_host_rate_ : out_rate_;
        if (from != to) rate = std::max(rate, links_.pairs[from * n + to].bytes_per_second);
      }
    }
  }
  for (size_t host = 0; host < hosts.size(); ++host) {
    host_out_.push_back(network_.add_port(out_rate_));
    host_in_.push_back(network_.add_port(out_rate_));
  }
  for (size_t rank = 0; rank < n; ++rank) {
    local_out_.push_back(network_.add_port(in_host_rate_));
    local_in_.push_back(network_.add_port(in_host_rate_));
  }
  outboxes_.resize(2 * n);
}

Fabric Fabric::of_one_rank(EventQueue& events, int num_ranks, int ranks_per_host, LinkModel links) {
  STRATA_CHECK(links.pairs.empty(), kInvalidArgument, "[simulate] links: got ", links.pairs.size(),
               " pairs for ", num_ranks,
               " ranks that are simulated as one; expected equal links (no \"pairs\")");
  Placement placement =
      Placement::blocks(std::vector<int>(static_cast<size_t>(num_ranks), 1), ranks_per_host);
  Fabric fabric(events, Placement{.rank_of_replica = {0}, .host_of_rank = {0}}, std::move(links));
  fabric.one_rank_ = true;
  fabric.weight_ = ranks_per_host;
  fabric.host_ = placement.host_of_rank;
  fabric.placement_ = std::move(placement);
  return fabric;
}

/// A port for a pair that is slower than its line, or -1.
int Fabric::pair_port(int from, int to, double line) {
  if (links_.pairs.empty()) return -1;
  const double rate = links_.between(placement_, from, to).bytes_per_second;
  if (rate == 0 || rate == line) return -1;
  const auto [entry, is_new] = pair_.try_emplace({from, to}, 0);
  if (is_new) entry->second = network_.add_port(rate);
  return entry->second;
}

void Fabric::send(int from, int to, double bytes, QueueNetwork::Done sent,
                  QueueNetwork::Done arrived) {
  const bool inside = host_[static_cast<size_t>(from)] == host_[static_cast<size_t>(to)];
  outbox(from, inside).waiting.push_back({to, bytes, std::move(sent), std::move(arrived)});
  begin_next(from, inside);
}

void Fabric::begin_next(int from, bool inside) {
  Outbox& box = outbox(from, inside);
  while (!box.waiting.empty() && box.left <= kSendWindow) {
    Message message = std::move(box.waiting.front());
    box.waiting.pop_front();
    box.left += message.bytes;
    transmit(from, inside, std::move(message));
  }
}

int Fabric::connection(int from, bool inside, int to) {
  const auto [entry, is_new] = connections_.try_emplace({from, to}, 0);
  if (!is_new) return entry->second;
  const auto sender = static_cast<size_t>(from);
  const auto receiver = one_rank_ ? sender : static_cast<size_t>(to);
  std::vector<QueueNetwork::Share> ports;
  if (inside) {
    ports = {{local_out_[sender]}, {local_in_[receiver]}};
  } else {
    const auto host = [&](size_t rank) { return static_cast<size_t>(host_[rank]); };
    ports = {{host_out_[host(sender)], weight_}, {host_in_[host(receiver)], weight_}};
  }
  const int pair = pair_port(from, to, inside ? in_host_rate_ : out_rate_);
  if (pair >= 0) ports.insert(ports.begin() + 1, {pair});
  entry->second = network_.add_connection(std::move(ports));
  return entry->second;
}

void Fabric::transmit(int from, bool inside, Message message) {
  const int over = connection(from, inside, message.to);
  const double latency = links_.between(placement_, from, message.to).latency;
  const auto begins_next = [this, from, inside](double bytes) {
    return [this, from, inside, bytes] {
      outbox(from, inside).left -= bytes;
      begin_next(from, inside);
    };
  };
  // Beside its last part the next message may begin.
  const double tail = std::min(message.bytes, kSendWindow);
  if (const double head = message.bytes - tail; head > 0) {
    network_.send(over, head, begins_next(head), [] {});
  }
  network_.send(
      over, tail,
      [next = begins_next(tail), sent = std::move(message.sent)] {
        next();
        sent();
      },
      [this, latency, arrived = std::move(message.arrived)] {
        events_.at(events_.now() + latency, arrived);
      });
}

double Fabric::bytes_between_hosts() const {
  double bytes = 0;
  for (const int port : host_out_) bytes += network_.bytes_through(port);
  return bytes;
}

double Fabric::bytes_in_hosts() const {
  double bytes = 0;
  for (const int port : local_out_) bytes += network_.bytes_through(port);
  return bytes;
}

}  // namespace strata::simulate
