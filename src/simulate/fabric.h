#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "collective/planner/link_model.h"
#include "simulate/event_queue.h"
#include "simulate/queue_network.h"
#include "strata/collective/algorithms.h"

namespace strata::simulate {

/// The lines between ranks, as a `LinkModel` describes them: each host has a full-duplex line that
/// its ranks share, each rank one to the others of its host, with the queues of a `QueueNetwork`. A
/// rank's messages over one line are sent as the executors do: the next one begins when no more than
/// 512 KiB are left of those before it, most of which a socket's buffer has.
class Fabric {
 public:
  /// @throws Error kInvalidArgument: the model's ranks share processors, or its pairs are not those
  ///   of
  ///                the placement's ranks.
  Fabric(EventQueue& events, collective::Placement placement, collective::LinkModel links);

  /// One rank of several that do the same at the same time (see `lockstep.h`): rank 0, on a host of
  /// `ranks_per_host`. What it sends, its equals send, and it receives what they send to it.
  static Fabric of_one_rank(EventQueue& events, int num_ranks, int ranks_per_host,
                            collective::LinkModel links);

  /// Sends a message behind the earlier ones of `from` on this line: a few are under way at a time,
  /// to one rank one after the other.
  /// @param sent  The sender's line is free.
  /// @param arrived  The last byte is there.
  void send(int from, int to, double bytes, QueueNetwork::Done sent, QueueNetwork::Done arrived);

  EventQueue& events() { return events_; }
  const QueueNetwork& network() const { return network_; }
  const collective::LinkModel& links() const { return links_; }
  int num_ranks() const { return placement_.num_ranks(); }

  /// What all hosts' lines have carried, in bytes: out and in are equal.
  double bytes_between_hosts() const;
  double bytes_in_hosts() const;

 private:
  struct Message {
    int to;
    double bytes;
    QueueNetwork::Done sent;
    QueueNetwork::Done arrived;
  };
  struct Outbox {
    double left = 0;  // bytes of messages that have begun
    std::deque<Message> waiting = {};
  };

  Outbox& outbox(int from, bool inside) {
    return outboxes_[2 * static_cast<size_t>(from) + (inside ? 1 : 0)];
  }
  void begin_next(int from, bool inside);
  void transmit(int from, bool inside, Message message);
  int connection(int from, bool inside, int to);
  int pair_port(int from, int to, double line);

  EventQueue& events_;
  QueueNetwork network_;
  collective::Placement placement_;
  collective::LinkModel links_;
  bool one_rank_ = false;
  double weight_ = 1;  // of a message on a host's line
  double out_rate_ = 0;
  double in_host_rate_ = 0;
  std::vector<int> host_;                    // by rank, from 0
  std::vector<int> host_out_, host_in_;      // ports, by host
  std::vector<int> local_out_, local_in_;    // ports, by rank
  std::map<std::pair<int, int>, int> pair_;  // ports of pairs that are slower than their lines
  std::vector<Outbox> outboxes_;             // by rank, for other hosts and for its own
  std::map<std::pair<int, int>, int> connections_;
};

}  // namespace strata::simulate
