// Each rank talks to its two neighbours.
#include <algorithm>

#include "collective/algorithms/standard_algorithms.h"

namespace strata::collective {
namespace {

/// The last n - 1 stages: at `first`, the rank at `position` has chunk `position + ahead`.
void pass_around(ScheduleBuilder& builder, const std::vector<int>& ring,
                 const std::vector<int>& chunks, int first, int ahead) {
  const int n = static_cast<int>(ring.size());
  for (int step = 0; step + 1 < n; ++step) {
    for (int position = 0; position < n; ++position) {
      const int chunk = chunks[static_cast<size_t>((position + ahead - step + 2 * n) % n)];
      builder.message(first + step, ring[static_cast<size_t>(position)], 0,
                      ring[static_cast<size_t>((position + 1) % n)], 0, chunk);
    }
  }
}

Schedule ring_all_gather(const Request& request) {
  const std::vector<int> ring = ranks_by_host(request);
  ScheduleBuilder builder =
      builder_for(request, "ring", equal_borders(request.placement.num_ranks()));
  builder.set_alignment(1);
  pass_around(builder, ring, /*chunks=*/ring, /*first=*/0, /*ahead=*/0);
  return std::move(builder).finish();
}

}  // namespace

bool all_have_replicas(const Request& request) {
  for (int rank = 0; rank < request.placement.num_ranks(); ++rank) {
    if (request.placement.replicas_of(rank).empty()) return false;
  }
  return true;
}

Schedule ring(const Request& request) {
  if (request.collective == Collective::kAllGather) return ring_all_gather(request);
  // Chunk c is summed in the order of ranks c, c + 1, ..., c + n - 1 (mod n), as in TensorFlow.
  const std::vector<Leaf> leaves = leaves_of(request);
  const int n = static_cast<int>(leaves.size());
  ScheduleBuilder builder = builder_for(request, "ring", equal_borders(n));
  std::vector<int> ring;
  std::vector<int> own;  // by position: the slot with the rank's value
  std::vector<int> whole;
  std::vector<int> partial;
  std::vector<int> chunks;
  for (const Leaf& leaf : leaves) {
    chunks.push_back(static_cast<int>(ring.size()));
    ring.push_back(leaf.rank);
    const bool several = leaf.slots.size() > 1;
    own.push_back(several ? builder.add_slot(leaf.rank, Schedule::Slot::kPartial) : leaf.slots[0]);
    if (several) {
      for (int chunk = 0; chunk < n; ++chunk) {
        builder.reduce(0, leaf.rank, leaf.slots, own.back(), chunk, /*order=*/0);
      }
    }
    whole.push_back(builder.add_slot(leaf.rank, Schedule::Slot::kWhole));
    partial.push_back(builder.add_slot(leaf.rank, Schedule::Slot::kPartial));
  }
  for (int step = 0; step + 1 < n; ++step) {
    for (int position = 0; position < n; ++position) {
      const auto from = static_cast<size_t>(position);
      const auto to = static_cast<size_t>((position + 1) % n);
      const int chunk = (position - step + n) % n;
      const int sent = step == 0 ? own[from] : partial[from];
      const bool raw = step == 0 && leaves[from].slots.size() == 1;
      const int received = raw ? whole[to] : partial[to];
      builder.message(step, ring[from], sent, ring[to], received, chunk);
      const bool last = step + 2 == n;
      builder.reduce(step + 1, ring[to], {received, own[to]}, last ? 0 : partial[to], chunk,
                     /*order=*/1);
    }
  }
  if (n == 1) {
    builder.copy(0, ring[0], own[0], 0, 0);
  }
  pass_around(builder, ring, chunks, n - 1, /*ahead=*/1);
  return std::move(builder).finish();
}

}  // namespace strata::collective
