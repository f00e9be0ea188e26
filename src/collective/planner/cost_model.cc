#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <vector>

#include "collective/planner/link_model.h"
#include "strata/core/error.h"

namespace strata::collective {
namespace {

/// A line into or out of a rank (in its host) or a host.
struct Port {
  double free_from = 0;

  /// @return when it begins.
  double take(double earliest, double duration) {
    const double begin = std::max(earliest, free_from);
    free_from = begin + duration;
    return begin;
  }
};

struct Arrival {
  int from, to, in_port;
  double duration;
};

/// Messages between two ranks that are there: when each came.
struct Channel {
  std::vector<double> arrived;
  size_t taken = 0;
};

/// Lines, and what steps take of them.
class LinkQueues {
 public:
  LinkQueues(const Schedule& schedule, const Placement& placement, const LinkModel& links,
             const Payload& payload)
      : schedule_(schedule), placement_(placement), links_(links), payload_(payload) {
    const int n = schedule.num_ranks();
    std::map<int, int> hosts;
    for (int rank = 0; rank < n; ++rank) {
      const int host = placement.host_of_rank[static_cast<size_t>(rank)];
      nic_.push_back(n + hosts.try_emplace(host, static_cast<int>(hosts.size())).first->second);
    }
    num_ports_ = static_cast<size_t>(n) + hosts.size();
    starts_.reserve(static_cast<size_t>(schedule.num_chunks()) + 1);
    for (int chunk = 0; chunk < schedule.num_chunks(); ++chunk) {
      starts_.push_back(schedule.range(payload.elements, chunk).begin);
    }
    starts_.push_back(payload.elements);
  }

  size_t num_ports() const { return num_ports_; }
  int64_t elements(const Step& s) const {
    return starts_[static_cast<size_t>(s.chunk + s.chunks)] - starts_[static_cast<size_t>(s.chunk)];
  }
  bool is_empty(const Step& s) const { return s.chunks > 0 && elements(s) == 0; }
  double bytes(int rank, int slot, const Step& s) const {
    const bool partial = schedule_.slots[static_cast<size_t>(rank)][static_cast<size_t>(slot)] ==
                         Schedule::Slot::kPartial;
    return static_cast<double>(elements(s) *
                               (partial ? payload_.partial_bytes : payload_.element_bytes));
  }
  const Link& link(int from, int to) const { return links_.between(placement_, from, to); }
  /// The line that messages between `rank` and `peer` take at `rank`.
  int port(int rank, int peer) const {
    const int local = nic_[static_cast<size_t>(rank)];
    return local == nic_[static_cast<size_t>(peer)] ? rank : local;
  }
  /// How long a message keeps its lines busy.
  double duration(int rank, const Step& s) const {
    const double rate = link(rank, s.peer).bytes_per_second;
    return rate > 0 && s.chunks > 0 ? bytes(rank, s.target, s) / rate : 0;
  }

 private:
  const Schedule& schedule_;
  const Placement& placement_;
  const LinkModel& links_;
  const Payload& payload_;
  std::vector<int> nic_;  // by rank
  size_t num_ports_ = 0;
  std::vector<int64_t> starts_;  // by chunk
};

class Simulation {
 public:
  Simulation(const Schedule& schedule, const LinkQueues& lines, const LinkModel& links)
      : schedule_(schedule),
        lines_(lines),
        links_(links),
        n_(schedule.num_ranks()),
        next_(static_cast<size_t>(n_)),
        finished_(static_cast<size_t>(n_)),
        waits_(static_cast<size_t>(n_), false),
        channels_(static_cast<size_t>(n_) * static_cast<size_t>(n_)),
        out_(lines.num_ports()),
        in_(lines.num_ports()) {
    const auto processors = static_cast<int>(std::lround(n_ / links.ranks_per_processor));
    if (processors < n_) processors_.resize(static_cast<size_t>(std::max(1, processors)));
  }

  double run(double at_most) {
    for (int rank = 0; rank < n_; ++rank) push(0, rank);
    while (!events_.empty()) {
      const auto [time, order, rank, arrival] = events_.top();
      events_.pop();
      if (time > at_most) return std::numeric_limits<double>::infinity();
      if (rank >= 0) {
        step(rank, time);
      } else {
        arrive(arrivals_[static_cast<size_t>(arrival)], time);
      }
    }
    for (int rank = 0; rank < n_; ++rank) {
      STRATA_DCHECK(next_[static_cast<size_t>(rank)] ==
                    schedule_.ranks[static_cast<size_t>(rank)].size());
    }
    return *std::max_element(finished_.begin(), finished_.end());
  }

 private:
  // (time, number, rank that continues or -1, message whose first byte is there)
  using Event = std::tuple<double, int64_t, int, int>;

  void push(double time, int rank, int arrival = -1) {
    events_.push({time, number_++, rank, arrival});
  }
  Channel& channel(int from, int to) {
    return channels_[static_cast<size_t>(from) * static_cast<size_t>(n_) + static_cast<size_t>(to)];
  }
  /// @return when a rank that could begin at `time` has worked for so long.
  double work(double time, double seconds) {
    if (processors_.empty()) return time + seconds;
    Port& next = *std::ranges::min_element(processors_, {}, &Port::free_from);
    return next.take(time, seconds) + seconds;
  }
  /// Steps of a rank whose processor is free at `time`, until something else happens before.
  void step(int rank, double time) {
    const auto& steps = schedule_.ranks[static_cast<size_t>(rank)];
    size_t& next = next_[static_cast<size_t>(rank)];
    double& finished = finished_[static_cast<size_t>(rank)];
    while (true) {
      finished = std::max(finished, time);
      while (next < steps.size() && lines_.is_empty(steps[next])) ++next;
      if (next == steps.size()) return;
      const Step& s = steps[next];
      switch (s.kind) {
        case Step::Kind::kBarrier:
          STRATA_DCHECK(false);
          break;
        case Step::Kind::kSend:
          time = work(time, links_.message_seconds);
          send(rank, s, time);
          // Within a host it is the processor that moves the bytes.
          if (!processors_.empty() && lines_.port(rank, s.peer) == rank) {
            time = work(time, lines_.duration(rank, s));
          }
          break;
        case Step::Kind::kReceive: {
          Channel& from = channel(s.peer, rank);
          if (from.taken == from.arrived.size()) {
            waits_[static_cast<size_t>(rank)] = true;
            return;  // `arrive` continues here
          }
          time = work(std::max(time, from.arrived[from.taken++]), links_.message_seconds);
          break;
        }
        case Step::Kind::kReduce:
        case Step::Kind::kCopy: {
          double moved = lines_.bytes(rank, s.target, s);
          for (int i = s.first; i < s.last; ++i) {
            const int slot = schedule_.sources[static_cast<size_t>(i)];
            if (slot != Schedule::kAbsent) moved += lines_.bytes(rank, slot, s);
          }
          if (links_.reduce_bytes_per_second > 0) {
            time = work(time, moved / links_.reduce_bytes_per_second);
          }
          break;
        }
      }
      ++next;
      if (!events_.empty() && std::get<0>(events_.top()) < time) return push(time, rank);
    }
  }

  void send(int rank, const Step& s, double time) {
    const double duration = lines_.duration(rank, s);
    const double begin = out_[static_cast<size_t>(lines_.port(rank, s.peer))].take(time, duration);
    double& finished = finished_[static_cast<size_t>(rank)];
    finished = std::max(finished, begin + duration);
    arrivals_.push_back({rank, s.peer, lines_.port(s.peer, rank), duration});
    push(begin + lines_.link(rank, s.peer).latency, -1, static_cast<int>(arrivals_.size()) - 1);
  }

  void arrive(const Arrival& message, double time) {
    const double begin = in_[static_cast<size_t>(message.in_port)].take(time, message.duration);
    channel(message.from, message.to).arrived.push_back(begin + message.duration);
    const auto to = static_cast<size_t>(message.to);
    if (waits_[to] && schedule_.ranks[to][next_[to]].peer == message.from) {
      waits_[to] = false;
      push(begin + message.duration, message.to);
    }
  }

  const Schedule& schedule_;
  const LinkQueues& lines_;
  const LinkModel& links_;
  const int n_;
  std::vector<size_t> next_;
  std::vector<double> finished_;
  std::vector<bool> waits_;
  std::vector<Channel> channels_;
  std::vector<Port> out_;
  std::vector<Port> in_;
  std::vector<Port> processors_;  // that ranks share; empty: each has its own
  std::vector<Arrival> arrivals_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  int64_t number_ = 0;
};

}  // namespace

double price(const Schedule& schedule, const Placement& placement, const LinkModel& links,
             const Payload& payload, double at_most) {
  const LinkQueues lines(schedule, placement, links, payload);
  return Simulation(schedule, lines, links).run(at_most);
}

double least_price(const Schedule& schedule, const Placement& placement, const LinkModel& links,
                   const Payload& payload) {
  const LinkQueues lines(schedule, placement, links, payload);
  std::vector<double> out(lines.num_ports());
  std::vector<double> in(lines.num_ports());
  double latency = std::numeric_limits<double>::infinity();
  int stages = 0;
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    for (const Step& s : schedule.ranks[static_cast<size_t>(rank)]) {
      if (s.kind != Step::Kind::kSend || lines.is_empty(s)) continue;
      const double duration = lines.duration(rank, s);
      out[static_cast<size_t>(lines.port(rank, s.peer))] += duration;
      in[static_cast<size_t>(lines.port(s.peer, rank))] += duration;
      latency = std::min(latency, lines.link(rank, s.peer).latency);
      stages = std::max(stages, s.stage + 1);
    }
  }
  if (stages == 0) return 0;
  const double busiest =
      std::max(*std::max_element(out.begin(), out.end()), *std::max_element(in.begin(), in.end()));
  return std::max(busiest + latency, stages * latency);
}

}  // namespace strata::collective
