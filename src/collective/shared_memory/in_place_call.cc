#include "collective/shared_memory/in_place_call.h"

#include <cstring>

#include <c10/util/SmallVector.h>

#include "collective/shared_memory/reduce_broadcast.h"
#include "core/nontemporal_copy.h"

namespace strata::collective {

uint32_t InPlaceCall::begin() {
  if (call_.bytes() < kLeastBytes) return 0;
  std::vector<SharedBuffers::Location> locations;
  const auto add = [&](const std::byte* data) {
    const auto location = buffers_.locate(data, call_.bytes());
    if (location) locations.push_back(*location);
    return location.has_value();
  };
  for (const std::byte* const value : call_.values) {
    if (!add(value)) return 0;
  }
  const bool result_is_seen =
      call_.collective == Collective::kAllReduce || call_.collective == Collective::kAllGather ||
      (call_.collective == Collective::kBroadcast && call_.root == channel_.rank());
  if (result_is_seen && !add(call_.result)) return 0;
  const size_t bytes = locations.size() * sizeof(SharedBuffers::Location);
  if (bytes > static_cast<size_t>(SharedMemoryChannel::kSlotBytes)) return 0;
  if (bytes > 0)
    std::memcpy(channel_.slot(channel_.rank(), channel_.step()), locations.data(), bytes);
  return static_cast<uint32_t>(locations.size()) + 1;
}

bool InPlaceCall::possible(uint32_t first) const {
  if (call_.collective == Collective::kBroadcast) {
    return channel_.header_of(call_.root, first).note > 0;
  }
  for (int rank = 0; rank < channel_.num_ranks(); ++rank) {
    if (channel_.header_of(rank, first).note == 0) return false;
  }
  return true;
}

bool InPlaceCall::somewhere(uint32_t first) const {
  if (call_.collective == Collective::kBroadcast) return false;  // the root has written it
  for (int rank = 0; rank < channel_.num_ranks(); ++rank) {
    if (channel_.header_of(rank, first).note != 0) return true;
  }
  return false;
}

void InPlaceCall::run(uint32_t first, const SharedWait& wait) {
  work(first);
  detail::nontemporal_fence();
  const uint32_t done = channel_.step();
  channel_.publish();
  channel_.await(done, wait);
}

std::vector<std::byte*> InPlaceCall::tensors(int rank, uint32_t first) const {
  const size_t count = channel_.header_of(rank, first).note - 1;
  std::vector<SharedBuffers::Location> locations(count);
  if (count > 0) {
    std::memcpy(locations.data(), channel_.slot(rank, first),
                count * sizeof(SharedBuffers::Location));
  }
  std::vector<std::byte*> result;
  for (const auto& location : locations) result.push_back(buffers_.at(location));
  return result;
}

void InPlaceCall::work(uint32_t first) const {
  const int ranks = channel_.num_ranks();
  const bool stream = call_.bytes() >= kStreamBytes;
  const auto copy = [&](std::byte* to, const std::byte* from, int64_t bytes) {
    if (stream) return strata::detail::nontemporal_copy(to, from, bytes);
    std::memcpy(to, from, static_cast<size_t>(bytes));
  };
  const Range local = call_.part(channel_.rank(), ranks);
  const int64_t begin = local.begin * call_.element_bytes;
  const int64_t bytes = local.size() * call_.element_bytes;
  if (call_.collective == Collective::kBroadcast) {
    if (channel_.rank() != call_.root) {
      copy(call_.result, tensors(call_.root, first).at(0), call_.bytes());
    }
    return;
  }
  std::vector<std::vector<std::byte*>> of_rank;
  for (int rank = 0; rank < ranks; ++rank) of_rank.push_back(tensors(rank, first));
  if (bytes == 0) return;
  if (call_.collective == Collective::kAllGather) {
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == channel_.rank()) continue;
      copy(of_rank[static_cast<size_t>(rank)].back() + begin, call_.result + begin, bytes);
    }
    return;
  }
  c10::SmallVector<Operand, 16> sources;
  std::vector<size_t> next(static_cast<size_t>(ranks), 0);
  for (const int rank : rank_of_replica_) {
    const auto r = static_cast<size_t>(rank);
    sources.push_back({.data = of_rank[r][next[r]++] + begin});
  }
  std::vector<std::byte*> targets;
  if (call_.collective == Collective::kReduceScatter) {
    targets = {call_.at(local.begin)};
  } else {
    for (const auto& of : of_rank) targets.push_back(of.back() + begin);
  }
  reduce_broadcast(*call_.reduction, sources, local.size(), targets, stream);
}

}  // namespace strata::collective
