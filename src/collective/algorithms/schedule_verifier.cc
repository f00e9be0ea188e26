// Runs a schedule of messages with expressions for values and vector clocks for time.
#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "collective/algorithms/deadlock_check.h"
#include "collective/algorithms/tree_reduction.h"
#include "core/split_mix64.h"
#include "strata/collective/algorithms.h"
#include "strata/core/error.h"

namespace strata::collective {
namespace {

/// Sums as numbers: equal expressions have equal numbers.
class Expressions {
 public:
  static constexpr int kNone = -1;  // nothing was written here, or no value

  int leaf(int id) { return intern(id, kNone, weight(id)); }
  int join(int a, int b) {
    if (a == kNone) return b;
    if (b == kNone) return a;
    return intern(a, b, weights_[static_cast<size_t>(a)] + weights_[static_cast<size_t>(b)]);
  }
  int tree(const std::vector<int>& values, int lo, int hi) {
    if (hi - lo == 1) return values[static_cast<size_t>(lo)];
    const int middle = LeafTree::middle(lo, hi);
    return join(tree(values, lo, middle), tree(values, middle, hi));
  }
  /// Equal for sums of the same values, whatever their order.
  uint64_t content(int value) const { return weights_[static_cast<size_t>(value)]; }

 private:
  static uint64_t weight(int id) {
    return strata::detail::split_mix64((static_cast<uint64_t>(id) + 1) *
                                       strata::detail::kSplitMix64Step);
  }
  int intern(int a, int b, uint64_t content) {
    const auto [entry, is_new] = known_.try_emplace({a, b}, static_cast<int>(weights_.size()));
    if (is_new) weights_.push_back(content);
    return entry->second;
  }

  std::map<std::pair<int, int>, int> known_;  // (id, none) for a leaf
  std::vector<uint64_t> weights_;
};

using VectorClock = std::vector<int>;  // by rank: how many of its steps are known to be over

struct SentMessage {
  const Step* step;
  int index;  // of the step
  std::vector<int> values;
  VectorClock clock;
  Schedule::Slot kind;
};

struct Cell {
  int value = Expressions::kNone;
  int last_use = 0;  // steps of the rank when it was read or written last
  std::vector<std::pair<int, int>>
      sends;  // (from rank's number of the message, to), see `arrivals`
};

bool is_wide(Schedule::Slot slot) { return slot == Schedule::Slot::kPartial; }

class ScheduleVerifier {
 public:
  ScheduleVerifier(const Schedule& schedule, const Request& request, bool in_place)
      : schedule_(schedule),
        request_(request),
        in_place_(in_place),
        n_(schedule.num_ranks()),
        next_(static_cast<size_t>(n_)),
        clocks_(static_cast<size_t>(n_), VectorClock(static_cast<size_t>(n_))),
        channels_(static_cast<size_t>(n_ * n_)),
        arrivals_(static_cast<size_t>(n_ * n_)),
        sent_(static_cast<size_t>(n_ * n_)) {}

  std::string run(uint64_t seed) {
    if (n_ != request_.placement.num_ranks()) return str_cat("steps of ", n_, " ranks");
    if (static_cast<int>(schedule_.slots.size()) != n_) return "no slots";
    if (std::string fault = fill(); !fault.empty()) return fault;
    std::mt19937_64 random(seed);
    std::vector<int> order(static_cast<size_t>(n_));
    for (int rank = 0; rank < n_; ++rank) order[static_cast<size_t>(rank)] = rank;
    for (bool moved = true; moved;) {
      moved = false;
      if (seed != 0) std::shuffle(order.begin(), order.end(), random);
      for (const int rank : order) {
        size_t steps = seed == 0 ? 1 : random() % 8;
        while (steps-- > 0) {
          const std::optional<std::string> outcome = advance(rank);
          if (!outcome) break;
          if (!outcome->empty())
            return str_cat("rank ", rank, ", step ", next(rank), ": ", *outcome);
          moved = true;
        }
        moved = moved || (seed != 0 && can_move(rank));
      }
    }
    return check_end();
  }

 private:
  const std::vector<Step>& steps(int rank) const {
    return schedule_.ranks[static_cast<size_t>(rank)];
  }
  size_t& next(int rank) { return next_[static_cast<size_t>(rank)]; }
  VectorClock& clock(int rank) { return clocks_[static_cast<size_t>(rank)]; }
  size_t pair(int from, int to) const { return static_cast<size_t>(from * n_ + to); }
  Schedule::Slot kind(int rank, int slot) const {
    return schedule_.slots[static_cast<size_t>(rank)][static_cast<size_t>(slot)];
  }
  bool has_slot(int rank, int slot) const {
    return slot >= 0 && slot < static_cast<int>(schedule_.slots[static_cast<size_t>(rank)].size());
  }
  Cell& cell(int rank, int slot, int chunk) {
    const bool same_memory = in_place_ && slot == 1 && kind(rank, 1) == Schedule::Slot::kValue;
    return cells_[{rank, same_memory ? 0 : slot, chunk}];
  }
  /// Which of n equal parts of the buffer a chunk is in.
  int part_of(int chunk) const {
    return static_cast<int>(schedule_.borders[static_cast<size_t>(chunk)] * n_ /
                            schedule_.borders.back());
  }

  std::string fill() {
    for (int rank = 0; rank < n_; ++rank) {
      const std::vector<int> replicas = request_.placement.replicas_of(rank);
      for (int chunk = 0; chunk < schedule_.num_chunks(); ++chunk) {
        switch (request_.collective) {
          case Collective::kAllReduce:
          case Collective::kReduceScatter:
            for (size_t i = 0; i < replicas.size(); ++i) {
              const int slot = 1 + static_cast<int>(i);
              if (!has_slot(rank, slot) || kind(rank, slot) != Schedule::Slot::kValue) {
                return str_cat("rank ", rank, " has no slot for each of its replicas");
              }
              cell(rank, slot, chunk).value = expressions_.leaf(replicas[i]);
            }
            break;
          case Collective::kAllGather:
            if (part_of(chunk) == rank) cell(rank, 0, chunk).value = expressions_.leaf(rank);
            break;
          case Collective::kBroadcast:
            if (rank == request_.root) cell(rank, 0, chunk).value = expressions_.leaf(rank);
            break;
          case Collective::kBarrier:
            break;
        }
      }
    }
    return {};
  }

  bool can_move(int rank) {
    if (next(rank) == steps(rank).size()) return false;
    const Step& step = steps(rank)[next(rank)];
    return step.kind != Step::Kind::kReceive || step.peer < 0 || step.peer >= n_ ||
           !channels_[pair(step.peer, rank)].empty();
  }

  /// Nothing: it is at its end, or waits. Else the fault, or an empty text.
  std::optional<std::string> advance(int rank) {
    if (!can_move(rank)) return std::nullopt;
    const Step& step = steps(rank)[next(rank)];
    if (step.chunk < 0 || step.chunks < 0 || step.chunk + step.chunks > schedule_.num_chunks()) {
      return "no such chunk";
    }
    if (!has_slot(rank, step.target)) return "no such slot";
    const bool message = step.kind == Step::Kind::kSend || step.kind == Step::Kind::kReceive;
    if (message && (step.peer < 0 || step.peer >= n_ || step.peer == rank)) return "no such peer";
    ++clock(rank)[static_cast<size_t>(rank)];
    std::string fault;
    switch (step.kind) {
      case Step::Kind::kBarrier:
        fault = "ranks that send messages do not synchronize";
        break;
      case Step::Kind::kSend:
        fault = send(rank, step);
        break;
      case Step::Kind::kReceive:
        fault = receive(rank, step);
        break;
      case Step::Kind::kReduce:
      case Step::Kind::kCopy:
        fault = compute(rank, step);
        break;
    }
    if (fault.empty()) ++next(rank);
    return fault;
  }

  std::string send(int rank, const Step& step) {
    SentMessage message{.step = &step,
                        .index = sent_[pair(rank, step.peer)]++,
                        .values = {},
                        .clock = clock(rank),
                        .kind = kind(rank, step.target)};
    for (int i = 0; i < step.chunks; ++i) {
      Cell& source = cell(rank, step.target, step.chunk + i);
      if (source.value == Expressions::kNone) return "sends a value that is not complete";
      source.last_use = clock(rank)[static_cast<size_t>(rank)];
      source.sends.push_back({step.peer, message.index});
      message.values.push_back(source.value);
    }
    channels_[pair(rank, step.peer)].push_back(std::move(message));
    return {};
  }

  std::string receive(int rank, const Step& step) {
    auto& channel = channels_[pair(step.peer, rank)];
    const SentMessage message = std::move(channel.front());
    channel.pop_front();
    if (message.step->chunk != step.chunk || message.step->chunks != step.chunks) {
      return str_cat("receives another part than rank ", step.peer, " sends");
    }
    if (is_wide(message.kind) != is_wide(kind(rank, step.target))) {
      return str_cat("receives another dtype than rank ", step.peer, " sends");
    }
    for (int i = 0; i < step.chunks; ++i) {
      Cell& target = cell(rank, step.target, step.chunk + i);
      // It may have arrived as soon as it was sent.
      if (target.last_use > message.clock[static_cast<size_t>(rank)]) {
        return str_cat("a message from rank ", step.peer, " can arrive in what is in use");
      }
      for (const auto& [to, index] : target.sends) {
        const auto& times = arrivals_[pair(rank, to)];
        if (static_cast<int>(times.size()) <= index ||
            times[static_cast<size_t>(index)] > message.clock[static_cast<size_t>(to)]) {
          return str_cat("a message from rank ", step.peer,
                         " can arrive in what is still being sent to rank ", to);
        }
      }
      if (std::string fault = write(rank, step, i, message.values[static_cast<size_t>(i)]);
          !fault.empty()) {
        return fault;
      }
    }
    VectorClock& local = clock(rank);
    for (size_t i = 0; i < local.size(); ++i) local[i] = std::max(local[i], message.clock[i]);
    arrivals_[pair(step.peer, rank)].push_back(local[static_cast<size_t>(rank)]);
    return {};
  }

  std::string compute(int rank, const Step& step) {
    const int count = step.last - step.first;
    if (step.first < 0 || count < 1 || step.last > static_cast<int>(schedule_.sources.size()) ||
        (step.kind == Step::Kind::kCopy && count != 1)) {
      return "no such sources";
    }
    for (int i = 0; i < step.chunks; ++i) {
      std::vector<int> values;
      for (int source = step.first; source < step.last; ++source) {
        const int slot = schedule_.sources[static_cast<size_t>(source)];
        values.push_back(Expressions::kNone);
        if (slot == Schedule::kAbsent) continue;
        if (!has_slot(rank, slot)) return "no such slot";
        Cell& read = cell(rank, slot, step.chunk + i);
        if (read.value == Expressions::kNone) return "adds a value that is not complete";
        read.last_use = clock(rank)[static_cast<size_t>(rank)];
        values.back() = read.value;
      }
      const int result = expressions_.tree(values, 0, count);
      if (result == Expressions::kNone) return "adds nothing";
      // Where the cell is still being sent, the executor waits for that.
      cell(rank, step.target, step.chunk + i).sends.clear();
      if (std::string fault = write(rank, step, i, result); !fault.empty()) return fault;
    }
    return {};
  }

  std::string write(int rank, const Step& step, int i, int value) {
    if (kind(rank, step.target) == Schedule::Slot::kValue) return "writes a replica's value";
    Cell& target = cell(rank, step.target, step.chunk + i);
    target.value = value;
    target.last_use = clock(rank)[static_cast<size_t>(rank)];
    return {};
  }

  std::string check_end() {
    for (int rank = 0; rank < n_; ++rank) {
      if (next(rank) < steps(rank).size()) {
        return str_cat("rank ", rank, " waits for ever in step ", next(rank), " for rank ",
                       steps(rank)[next(rank)].peer);
      }
    }
    for (int from = 0; from < n_; ++from) {
      for (int to = 0; to < n_; ++to) {
        if (!channels_[pair(from, to)].empty()) {
          return str_cat("rank ", to, " does not receive a message from rank ", from);
        }
      }
    }
    if (request_.collective == Collective::kBarrier) {
      for (int rank = 0; rank < n_; ++rank) {
        for (int other = 0; other < n_; ++other) {
          if (other != rank && clock(rank)[static_cast<size_t>(other)] == 0) {
            return str_cat("rank ", rank, " can leave before rank ", other, " has come");
          }
        }
      }
      return {};
    }
    return check_results();
  }

  std::string check_results() {
    std::vector<int> replicas;
    uint64_t content = 0;
    for (int replica = 0; replica < request_.placement.num_replicas(); ++replica) {
      replicas.push_back(expressions_.leaf(replica));
      content += expressions_.content(replicas.back());
    }
    const int sum = expressions_.tree(replicas, 0, static_cast<int>(replicas.size()));
    for (int rank = 0; rank < n_; ++rank) {
      for (int chunk = 0; chunk < schedule_.num_chunks(); ++chunk) {
        const int value = cell(rank, 0, chunk).value;
        bool right = value != Expressions::kNone;
        switch (request_.collective) {
          case Collective::kReduceScatter:
            if (part_of(chunk) != rank) continue;
            [[fallthrough]];
          case Collective::kAllReduce:
            right =
                right && (request_.order == Order::kFixed ? value == sum
                                                          : expressions_.content(value) == content);
            break;
          case Collective::kAllGather:
            right = right && value == expressions_.leaf(part_of(chunk));
            break;
          case Collective::kBroadcast:
            right = right && value == expressions_.leaf(request_.root);
            break;
          case Collective::kBarrier:
            break;
        }
        if (!right) return str_cat("rank ", rank, " ends with a wrong value in chunk ", chunk);
      }
    }
    return {};
  }

  const Schedule& schedule_;
  const Request& request_;
  const bool in_place_;
  const int n_;
  Expressions expressions_;
  std::vector<size_t> next_;
  std::vector<VectorClock> clocks_;
  std::vector<std::deque<SentMessage>> channels_;
  std::vector<std::vector<int>> arrivals_;  // by pair: when, by the receiver's clock, each arrived
  std::vector<int> sent_;
  std::map<std::tuple<int, int, int>, Cell> cells_;  // (rank, slot, chunk)
};

}  // namespace

std::string find_fault(const Schedule& schedule, const Request& request, uint64_t seed) {
  for (const bool in_place : {false, true}) {
    std::string fault = ScheduleVerifier(schedule, request, in_place).run(seed);
    if (!fault.empty()) {
      return str_cat(schedule.name, in_place ? " (in place): " : ": ", fault);
    }
  }
  const std::string deadlock = find_deadlock(schedule);
  return deadlock.empty() ? "" : str_cat(schedule.name, ": ", deadlock);
}

}  // namespace strata::collective
