#include "collective/shared_memory/staged_call.h"

#include <algorithm>
#include <cstring>

#include <c10/util/SmallVector.h>

#include "collective/shared_memory/reduce_broadcast.h"
#include "core/nontemporal_copy.h"
#include "strata/core/error.h"

namespace strata::collective {
namespace {

constexpr int64_t kCacheLine = 64;
// Up to here a second barrier costs more than n - 1 ranks save by not adding what others add.
constexpr int64_t kAloneBytes = 4096;

bool divides(const CollectiveCall& call, int ranks) {
  switch (call.collective) {
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      return true;
    case Collective::kAllReduce:
      return ranks > 2 && call.bytes() > kAloneBytes;
    default:
      return false;
  }
}

}  // namespace

StagedCall::StagedCall(SharedMemoryChannel& channel, const LocalSubtrees& subtrees,
                       const CollectiveCall& call)
    : channel_(channel),
      subtrees_(subtrees),
      call_(call),
      rank_(channel.rank()),
      divided_(divides(call, channel.num_ranks())),
      fetches_(divided_ && call.collective == Collective::kAllReduce) {
  const bool reduces = call.reduction != nullptr;
  if (call.elements == 0) return;
  stream_ = call.bytes() >= kStreamBytes &&
            std::find(call.values.begin(), call.values.end(), call.result) == call.values.end();
  slot_parts_ = divided_ && reduces ? channel.num_ranks() : 1;
  node_bytes_ =
      reduces ? std::max(call.element_bytes, call.reduction->partial_bytes()) : call.element_bytes;
  const int64_t nodes = reduces ? subtrees.most() : 1;
  const int64_t fit = SharedMemoryChannel::kSlotBytes / (nodes * slot_parts_ * node_bytes_);
  STRATA_CHECK(fit > 0, kResourceExhausted, "[collective] got ", nodes,
               " subtrees of replicas on one of ", channel.num_ranks(),
               " ranks, too many for shared memory; give ranks consecutive replicas");
  part_elements_ = fit >= kCacheLine ? fit / kCacheLine * kCacheLine : fit;
  int64_t longest = call.elements;
  if (divided_) longest = call.part(0, channel.num_ranks()).size();
  pieces_ = (longest + part_elements_ - 1) / part_elements_;
}

Range StagedCall::range(int part, int64_t piece) const {
  const Range whole =
      divided_ ? call_.part(part, channel_.num_ranks()) : Range{.begin = 0, .end = call_.elements};
  const int64_t begin = std::min(whole.end, whole.begin + piece * part_elements_);
  return {begin, std::min(whole.end, begin + part_elements_)};
}

std::byte* StagedCall::node_slot(const LocalSubtrees::Node& node, uint32_t step, int part) const {
  const int64_t place = slot_parts_ == 1 ? 0 : part;
  return channel_.slot(node.rank, step) +
         (node.index * slot_parts_ + place) * part_elements_ * node_bytes_;
}

void StagedCall::begin() {
  if (pieces_ > 0) stage(0, channel_.step());
}

void StagedCall::run(const SharedWait& wait, bool begun) {
  const int64_t turns = std::max<int64_t>(pieces_, 1) + (fetches_ ? 2 : 1);
  for (int64_t turn = begun ? 1 : 0; turn < turns; ++turn) {
    const uint32_t step = channel_.step();
    if (turn < pieces_) stage(turn, step);
    if (turn > 0) {
      if (!begun || turn > 1) channel_.await(step - 1, wait);
      if (turn - 1 < pieces_) consume(turn - 1, step);
      if (fetches_ && turn > 1) fetch(turn - 2, step);
    }
    if (turn + 1 < turns) {
      channel_.publish();
    } else {
      channel_.skip();
    }
  }
}

void StagedCall::stage(int64_t piece, uint32_t step) const {
  if (call_.reduction != nullptr) {
    if (!divided_) return stage_nodes(0, range(0, piece), step, true);
    for (int part = 0; part < channel_.num_ranks(); ++part) {
      stage_nodes(part, range(part, piece), step, part != rank_);
    }
    return;
  }
  const bool brings = call_.collective == Collective::kAllGather || rank_ == call_.root;
  if (!brings) return;
  const Range local = range(divided_ ? rank_ : 0, piece);
  std::memcpy(channel_.slot(rank_, step), call_.at(local.begin),
              static_cast<size_t>(local.size() * call_.element_bytes));
}

void StagedCall::stage_nodes(int part, const Range& range, uint32_t step, bool for_others) const {
  if (range.size() == 0) return;
  for (const LocalSubtrees::Node& node : subtrees_.of(rank_)) {
    const std::byte* const first =
        call_.values[static_cast<size_t>(node.first)] + range.begin * call_.element_bytes;
    std::byte* const slot = node_slot(node, step, part);
    if (node.replicas == 1) {
      if (!for_others) continue;  // `join` takes the value itself
      std::memcpy(slot, first, static_cast<size_t>(range.size() * call_.element_bytes));
      continue;
    }
    c10::SmallVector<Operand, 16> sources;
    for (int i = 0; i < node.replicas; ++i) {
      const auto place = static_cast<size_t>(node.first + i);
      sources.push_back({.data = const_cast<std::byte*>(call_.values[place]) +
                                 range.begin * call_.element_bytes});
    }
    call_.reduction->reduce(sources.data(), node.replicas, range.size(),
                            {.data = slot, .partial = true}, false);
  }
}

void StagedCall::consume(int64_t piece, uint32_t step) const {
  const uint32_t written = step - 1;
  switch (call_.collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter: {
      const int part = divided_ ? rank_ : 0;
      join(part, range(part, piece), written,
           fetches_ ? channel_.result_slot(rank_, step) : nullptr);
      return;
    }
    case Collective::kAllGather:
      for (int other = 0; other < channel_.num_ranks(); ++other) {
        if (other != rank_) take(range(other, piece), channel_.slot(other, written));
      }
      return;
    case Collective::kBroadcast:
      if (rank_ != call_.root) take(range(0, piece), channel_.slot(call_.root, written));
      return;
    case Collective::kBarrier:
      return;
  }
}

void StagedCall::join(int part, const Range& range, uint32_t written, std::byte* copy) const {
  if (range.size() == 0) return;
  c10::SmallVector<Operand, 16> sources;
  for (const int index : subtrees_.sources()) {
    if (index == Schedule::kAbsent) {
      sources.push_back({});
      continue;
    }
    const LocalSubtrees::Node& node = subtrees_.nodes()[static_cast<size_t>(index)];
    if (node.rank == rank_ && node.replicas == 1) {
      const auto place = static_cast<size_t>(node.first);
      sources.push_back({.data = const_cast<std::byte*>(call_.values[place]) +
                                 range.begin * call_.element_bytes});
    } else {
      sources.push_back({.data = node_slot(node, written, part), .partial = node.replicas > 1});
    }
  }
  std::byte* const targets[] = {call_.at(range.begin), copy};
  reduce_broadcast(*call_.reduction, sources, range.size(), {targets, copy == nullptr ? 1u : 2u},
                   stream_ && copy == nullptr);
}

void StagedCall::fetch(int64_t piece, uint32_t step) const {
  for (int other = 0; other < channel_.num_ranks(); ++other) {
    if (other != rank_) take(range(other, piece), channel_.result_slot(other, step - 1));
  }
}

void StagedCall::take(const Range& range, const std::byte* from) const {
  const int64_t bytes = range.size() * call_.element_bytes;
  if (bytes == 0) return;
  if (stream_) {
    strata::detail::nontemporal_copy(call_.at(range.begin), from,
                                     bytes);  // this rank's own: no fence
  } else {
    std::memcpy(call_.at(range.begin), from, static_cast<size_t>(bytes));
  }
}

}  // namespace strata::collective
