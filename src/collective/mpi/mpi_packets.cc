#include "collective/mpi/mpi_packets.h"

#include <c10/util/SmallVector.h>

#include <cstring>

namespace strata::collective {
namespace {

constexpr int64_t kAlignment = 16;
constexpr int64_t aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

int64_t MpiPackets::node_bytes(const LocalSubtrees::Node& node, int64_t elements) const {
  return elements * (node.replicas == 1 ? call_.element_bytes : call_.reduction->partial_bytes());
}

std::byte* MpiPackets::value(const LocalSubtrees::Node& node, int replica, int64_t element) const {
  const size_t place = static_cast<size_t>(node.first) + static_cast<size_t>(replica);
  return const_cast<std::byte*>(call_.values[place]) + element * call_.element_bytes;
}

int64_t MpiPackets::bytes(int rank, int64_t elements) const {
  int64_t offset = 0;
  for (const auto& node : subtrees_.of(rank)) {
    offset = aligned(offset) + node_bytes(node, elements);
  }
  return offset;
}

bool MpiPackets::plain() const {
  const auto& local = subtrees_.of(rank_);
  return local.empty() || (local.size() == 1 && local[0].replicas == 1);
}

void MpiPackets::pack(const Range& range, std::byte* packet, bool for_others) const {
  if (range.size() == 0) return;
  int64_t offset = 0;
  for (const auto& node : subtrees_.of(rank_)) {
    std::byte* const target = packet + aligned(offset);
    offset = aligned(offset) + node_bytes(node, range.size());
    if (node.replicas == 1) {
      if (!for_others) continue;
      std::memcpy(target, value(node, 0, range.begin),
                  static_cast<size_t>(node_bytes(node, range.size())));
      continue;
    }
    c10::SmallVector<Operand, 16> sources;
    for (int i = 0; i < node.replicas; ++i) {
      sources.push_back({.data = value(node, i, range.begin)});
    }
    call_.reduction->reduce(sources.data(), node.replicas, range.size(),
                            {.data = target, .partial = true}, false);
  }
}

void MpiPackets::join(const Range& range, const Range& packed,
                      const std::function<const std::byte*(int rank)>& packets) const {
  if (range.size() == 0) return;
  c10::SmallVector<Operand, 16> of_node(subtrees_.nodes().size());
  for (size_t i = 0; i < of_node.size(); ++i) {
    const LocalSubtrees::Node& node = subtrees_.nodes()[i];
    if (node.rank == rank_ && node.replicas == 1) {
      of_node[i] = {.data = value(node, 0, range.begin)};
      continue;
    }
    int64_t offset = 0;
    for (int before = 0; before < node.index; ++before) {
      const auto& other = subtrees_.of(node.rank)[static_cast<size_t>(before)];
      offset = aligned(offset + node_bytes(other, packed.size()));
    }
    offset += node_bytes(node, range.begin - packed.begin);
    of_node[i] = {.data = const_cast<std::byte*>(packets(node.rank)) + offset,
                  .partial = node.replicas > 1};
  }
  c10::SmallVector<Operand, 16> sources;
  for (const int index : subtrees_.sources()) {
    sources.push_back(index == Schedule::kAbsent ? Operand{} : of_node[static_cast<size_t>(index)]);
  }
  call_.reduction->reduce(sources.data(), static_cast<int>(sources.size()), range.size(),
                          {.data = call_.at(range.begin)}, true);
}

}  // namespace strata::collective
