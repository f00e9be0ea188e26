#include "simulate/lockstep.h"

#include <bit>
#include <utility>

namespace strata::simulate {
namespace {

using collective::Schedule;
using collective::Step;
using Slot = Schedule::Slot;

constexpr int kResult = 0;
constexpr int kFirstValue = 1;

/// Writes rank 0's steps.
class OneRank {
 public:
  OneRank(std::string name, int chunks, int replicas) : replicas_(replicas) {
    schedule_.name = std::move(name);
    schedule_.alignment = 1;  // a rank's part has the average size
    for (int i = 0; i <= chunks; ++i) schedule_.borders.push_back(i);
    schedule_.ranks.resize(1);
    schedule_.slots = {{Slot::kResult}};
    for (int i = 0; i < replicas; ++i) add_slot(Slot::kValue);
  }

  int add_slot(Slot kind) {
    schedule_.slots[0].push_back(kind);
    return static_cast<int>(schedule_.slots[0].size()) - 1;
  }
  /// The rank's value, or the sum of those of its replicas.
  int own(int chunk, int chunks) {
    if (replicas_ == 1) return kFirstValue;
    if (own_ < 0) own_ = add_slot(Slot::kPartial);
    reduce(0, chunk, chunks, {}, own_);
    return own_;
  }
  Slot received_kind() const { return replicas_ == 1 ? Slot::kWhole : Slot::kPartial; }

  void send(int stage, int peer, int chunk, int chunks, int slot) {
    add({.kind = Step::Kind::kSend,
         .peer = peer,
         .chunk = chunk,
         .chunks = chunks,
         .target = slot,
         .stage = stage});
  }
  void receive(int stage, int peer, int chunk, int chunks, int slot) {
    add({.kind = Step::Kind::kReceive,
         .peer = peer,
         .chunk = chunk,
         .chunks = chunks,
         .target = slot,
         .stage = stage});
  }
  /// All of the rank's values and `others`.
  void reduce(int stage, int chunk, int chunks, const std::vector<int>& others, int target) {
    std::vector<int> sources;
    for (int i = 0; i < replicas_; ++i) sources.push_back(kFirstValue + i);
    sources.insert(sources.end(), others.begin(), others.end());
    reduce_just(stage, chunk, chunks, sources, target);
  }
  void reduce_just(int stage, int chunk, int chunks, const std::vector<int>& sources, int target) {
    const int first = static_cast<int>(schedule_.sources.size());
    schedule_.sources.insert(schedule_.sources.end(), sources.begin(), sources.end());
    add({.kind = Step::Kind::kReduce,
         .chunk = chunk,
         .chunks = chunks,
         .target = target,
         .first = first,
         .last = static_cast<int>(schedule_.sources.size()),
         .stage = stage});
  }

  Schedule finish() && { return std::move(schedule_); }

 private:
  void add(const Step& step) { schedule_.ranks[0].push_back(step); }

  Schedule schedule_;
  int replicas_;
  int own_ = -1;
};

Schedule direct_of_one(int n, int replicas) {
  OneRank rank("direct", n, replicas);
  const int own = rank.own(1, n - 1);
  std::vector<int> received;
  for (int i = 1; i < n; ++i) received.push_back(rank.add_slot(rank.received_kind()));
  for (int peer = 1; peer < n; ++peer) rank.send(0, peer, peer, 1, own);
  for (int peer = n - 1; peer > 0; --peer) {
    rank.receive(1, peer, 0, 1, received[static_cast<size_t>(peer - 1)]);
  }
  rank.reduce(1, 0, 1, received, kResult);
  for (int peer = 1; peer < n; ++peer) rank.send(1, peer, 0, 1, kResult);
  for (int peer = n - 1; peer > 0; --peer) rank.receive(2, peer, peer, 1, kResult);
  return std::move(rank).finish();
}

Schedule ring_of_one(int n, int replicas) {
  OneRank rank("ring", n, replicas);
  const int own = rank.own(0, n);
  const int whole = rank.add_slot(rank.received_kind());
  const int partial = rank.add_slot(Slot::kPartial);
  rank.send(0, 1, 0, 1, own);
  for (int stage = 1; stage < n; ++stage) {
    const int chunk = n - stage;
    const int from = stage == 1 ? whole : partial;
    rank.receive(stage, n - 1, chunk, 1, from);
    rank.reduce_just(stage, chunk, 1, {from, own}, stage + 1 == n ? kResult : partial);
    rank.send(stage, 1, chunk, 1, stage + 1 == n ? kResult : partial);
  }
  for (int i = 0; i + 1 < n; ++i) {
    const int chunk = (n - i) % n;
    rank.receive(n + i, n - 1, chunk, 1, kResult);
    if (i + 2 < n) rank.send(n + i, 1, chunk, 1, kResult);
  }
  return std::move(rank).finish();
}

Schedule halving_of_one(int n, int replicas) {
  OneRank rank("halving_doubling", n, replicas);
  const int levels = std::countr_zero(static_cast<unsigned>(n));
  const int own = rank.own(n / 2, n / 2);
  rank.send(0, 1, n / 2, n / 2, own);
  const int sum = rank.add_slot(Slot::kPartial);
  std::vector<int> received;
  for (int level = 1; level <= levels; ++level) {
    const int part = n >> level;  // of the buffer is left to this rank
    received.push_back(rank.add_slot(level == 1 ? rank.received_kind() : Slot::kPartial));
    rank.receive(level, 1 << (level - 1), 0, part, received.back());
    if (level == levels) {
      rank.reduce(level, 0, 1, received, kResult);
    } else {
      rank.reduce(level, part / 2, part / 2, received, sum);
      rank.send(level, 1 << level, part / 2, part / 2, sum);
    }
  }
  for (int level = levels; level > 0; --level) {
    const int part = n >> level;
    const int stage = 2 * levels - level;
    rank.send(stage, 1 << (level - 1), 0, part, kResult);
    rank.receive(stage + 1, 1 << (level - 1), part, part, kResult);
  }
  return std::move(rank).finish();
}

Schedule doubling_of_one(int n) {
  OneRank rank("recursive_doubling", 1, /*replicas=*/1);
  const int levels = std::countr_zero(static_cast<unsigned>(n));
  int own = rank.own(0, 1);
  for (int level = 0; level < levels; ++level) {
    rank.send(level, 1 << level, 0, 1, own);
    const int received = rank.add_slot(level == 0 ? rank.received_kind() : Slot::kPartial);
    const int sum = level + 1 == levels ? kResult : rank.add_slot(Slot::kPartial);
    rank.receive(level + 1, 1 << level, 0, 1, received);
    rank.reduce_just(level + 1, 0, 1, {own, received}, sum);
    own = sum;
  }
  return std::move(rank).finish();
}

bool is_power_of_two(int n) { return std::has_single_bit(static_cast<unsigned>(n)); }

}  // namespace

std::optional<Schedule> steps_of_one_rank(const std::string& algorithm, int num_ranks,
                                          int replicas) {
  if (num_ranks < 2 || !is_power_of_two(replicas)) return std::nullopt;
  if (algorithm == "direct") return direct_of_one(num_ranks, replicas);
  if (algorithm == "ring") return ring_of_one(num_ranks, replicas);
  if (!is_power_of_two(num_ranks)) return std::nullopt;
  if (algorithm == "halving_doubling") return halving_of_one(num_ranks, replicas);
  if (algorithm == "recursive_doubling" && replicas == 1) return doubling_of_one(num_ranks);
  return std::nullopt;
}

int mirrored_peer(const Schedule& schedule, int peer, int num_ranks) {
  const bool pairs = schedule.name.starts_with("halving") || schedule.name.starts_with("recursive");
  return pairs ? peer : (num_ranks - peer) % num_ranks;
}

}  // namespace strata::simulate
