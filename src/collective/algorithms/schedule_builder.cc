#include "collective/algorithms/schedule_builder.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace strata::collective {
namespace {

constexpr int kCopies = std::numeric_limits<int>::max();  // their order in a stage

/// Joins neighbours that differ in their chunks alone, and follow each other there.
template <typename T, typename SameButChunk>
void join_chunks(std::vector<T>& sorted, SameButChunk same) {
  size_t kept = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (kept > 0 && same(sorted[kept - 1], sorted[i]) &&
        sorted[kept - 1].chunk + sorted[kept - 1].chunks == sorted[i].chunk) {
      sorted[kept - 1].chunks += sorted[i].chunks;
    } else {
      sorted[kept++] = sorted[i];
    }
  }
  sorted.resize(kept);
}

}  // namespace

ScheduleBuilder::ScheduleBuilder(std::string name, int num_ranks, std::vector<int64_t> borders) {
  schedule_.name = std::move(name);
  schedule_.borders = std::move(borders);
  schedule_.ranks.resize(static_cast<size_t>(num_ranks));
  schedule_.slots.resize(static_cast<size_t>(num_ranks));
}

int ScheduleBuilder::add_slot(int rank, Schedule::Slot kind) {
  auto& slots = schedule_.slots[static_cast<size_t>(rank)];
  slots.push_back(kind);
  return static_cast<int>(slots.size()) - 1;
}

void ScheduleBuilder::message(int stage, int from, int from_slot, int to, int to_slot, int chunk,
                              int chunks) {
  messages_.push_back({stage, from, to, from_slot, to_slot, chunk, chunks});
}

void ScheduleBuilder::reduce(int stage, int rank, const std::vector<int>& sources, int target,
                             int chunk, int order) {
  const int first = intern(sources);
  sums_.push_back(
      {stage, rank, order, target, first, first + static_cast<int>(sources.size()), chunk, 1});
}

void ScheduleBuilder::copy(int stage, int rank, int source, int target, int chunk) {
  const int first = intern({source});
  sums_.push_back({stage, rank, kCopies, target, first, first + 1, chunk, 1});
}

int ScheduleBuilder::intern(const std::vector<int>& sources) {
  const auto [entry, is_new] =
      interned_.try_emplace(sources, static_cast<int>(schedule_.sources.size()));
  if (is_new) {
    schedule_.sources.insert(schedule_.sources.end(), sources.begin(), sources.end());
  }
  return entry->second;
}

Schedule ScheduleBuilder::finish() && {
  std::sort(messages_.begin(), messages_.end());
  join_chunks(messages_, [](const Message& a, const Message& b) {
    return std::tie(a.stage, a.from, a.to, a.from_slot, a.to_slot) ==
           std::tie(b.stage, b.from, b.to, b.from_slot, b.to_slot);
  });
  std::sort(sums_.begin(), sums_.end());
  join_chunks(sums_, [](const Sum& a, const Sum& b) {
    return std::tie(a.stage, a.rank, a.order, a.target, a.first, a.last) ==
           std::tie(b.stage, b.rank, b.order, b.target, b.first, b.last);
  });

  // (stage, what, from which peer on, as sorted above) for each rank. Both ends of a pair order its
  // messages alike: by stage, then as in `messages_`.
  enum { kReceives, kSums, kSends };
  using Key = std::tuple<int, int, int, size_t>;
  std::vector<std::vector<std::pair<Key, Step>>> ordered(schedule_.ranks.size());
  const int n = num_ranks();
  for (size_t i = 0; i < messages_.size(); ++i) {
    const Message& m = messages_[i];
    const int distance = (m.to - m.from + n) % n;
    Step step{.kind = Step::Kind::kSend,
              .peer = m.to,
              .chunk = m.chunk,
              .chunks = m.chunks,
              .target = m.from_slot,
              .stage = m.stage};
    ordered[static_cast<size_t>(m.from)].push_back({{m.stage, kSends, distance, i}, step});
    step.kind = Step::Kind::kReceive;
    step.peer = m.from;
    step.target = m.to_slot;
    step.stage = m.stage + 1;
    ordered[static_cast<size_t>(m.to)].push_back({{m.stage + 1, kReceives, distance, i}, step});
  }
  for (size_t i = 0; i < sums_.size(); ++i) {
    const Sum& s = sums_[i];
    const Step step{.kind = s.order == kCopies ? Step::Kind::kCopy : Step::Kind::kReduce,
                    .chunk = s.chunk,
                    .chunks = s.chunks,
                    .target = s.target,
                    .first = s.first,
                    .last = s.last,
                    .stage = s.stage};
    ordered[static_cast<size_t>(s.rank)].push_back({{s.stage, kSums, 0, i}, step});
  }
  for (size_t rank = 0; rank < ordered.size(); ++rank) {
    std::sort(ordered[rank].begin(), ordered[rank].end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [key, step] : ordered[rank]) schedule_.ranks[rank].push_back(step);
  }
  return std::move(schedule_);
}

}  // namespace strata::collective
