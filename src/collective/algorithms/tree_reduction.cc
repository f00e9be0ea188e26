#include "collective/algorithms/tree_reduction.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "strata/core/error.h"

namespace strata::collective {

std::vector<int> compressed(std::vector<int> places) {
  const auto absent = [&](size_t i) { return places[i] == Schedule::kAbsent; };
  while (places.size() > 1) {
    if (absent(places.size() - 1)) {
      places.pop_back();
      continue;
    }
    bool pairs = true;
    for (size_t i = 1; i < places.size(); i += 2) pairs = pairs && absent(i);
    if (!pairs) break;
    size_t kept = 0;
    for (size_t i = 0; i < places.size(); i += 2) places[kept++] = places[i];
    places.resize(kept);
  }
  return places;
}

std::vector<Leaf> leaves_of(const Request& request) {
  const Placement& placement = request.placement;
  std::vector<Leaf> leaves;
  if (request.order == Order::kFixed) {
    std::vector<int> next(static_cast<size_t>(placement.num_ranks()), 1);
    for (const int rank : placement.rank_of_replica) {
      leaves.push_back({rank, {next[static_cast<size_t>(rank)]++}});
    }
    return leaves;
  }
  std::vector<int> ranks(static_cast<size_t>(placement.num_ranks()));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return placement.host_of_rank[static_cast<size_t>(a)] <
           placement.host_of_rank[static_cast<size_t>(b)];
  });
  for (const int rank : ranks) {
    const int count = static_cast<int>(placement.replicas_of(rank).size());
    if (count == 0) continue;
    leaves.push_back({rank, {}});
    for (int slot = 1; slot <= count; ++slot) leaves.back().slots.push_back(slot);
  }
  return leaves;
}

LeafTree::LeafTree(std::vector<Leaf> leaves) : leaves_(std::move(leaves)) { add(0, size()); }

int LeafTree::middle(int lo, int hi) {  // tensor::tree_left_count, without libtorch
  return lo + static_cast<int>(std::bit_floor(static_cast<unsigned>(hi - lo - 1)));
}

void LeafTree::add(int lo, int hi) {
  std::vector<int> ranks;
  std::set<int> seen;
  for (int i = lo; i < hi; ++i) {
    if (seen.insert(leaf(i).rank).second) ranks.push_back(leaf(i).rank);
  }
  ranks_[{lo, hi}] = std::move(ranks);
  if (hi - lo < 2) return;
  add(lo, middle(lo, hi));
  add(middle(lo, hi), hi);
}

TreeReduction::TreeReduction(ScheduleBuilder& builder, const LeafTree& tree, OwnerOf place,
                             bool flatten)
    : builder_(builder), tree_(tree), owner_of_(std::move(place)), flatten_(flatten) {}

int TreeReduction::owner_of(int rank, int lo, int hi, int chunk) const {
  const std::vector<int>& ranks = tree_.ranks(lo, hi);
  return ranks.size() == 1 ? ranks[0] : owner_of_(lo, hi, chunk, rank);
}

int TreeReduction::scratch(int rank, int lo, int hi, Schedule::Slot kind, bool received) {
  const auto [entry, is_new] = slots_.try_emplace({rank, lo, hi, received}, 0);
  if (is_new) entry->second = builder_.add_slot(rank, kind);
  return entry->second;
}

TreeReduction::Value TreeReduction::leaf_at_owner(int index, int chunk) {
  const Leaf& leaf = tree_.leaf(index);
  if (leaf.slots.size() == 1) return {.slot = leaf.slots[0]};
  Value& value = values_[{leaf.rank, index, index + 1, chunk}];
  if (value.slot == 0) {
    value.slot = scratch(leaf.rank, index, index + 1, Schedule::Slot::kPartial, false);
    builder_.reduce(0, leaf.rank, leaf.slots, value.slot, chunk, /*order=*/0);
  }
  return value;
}

TreeReduction::Value TreeReduction::receive(int rank, int lo, int hi, int chunk, int owner,
                                            int depth) {
  const Value sent = value_at(owner, lo, hi, chunk, depth);
  const bool whole = hi - lo == 1 && tree_.leaf(lo).slots.size() == 1;
  Value value;
  value.slot =
      scratch(rank, lo, hi, whole ? Schedule::Slot::kWhole : Schedule::Slot::kPartial, true);
  value.stage = sent.stage + 1;
  value.received = true;
  builder_.message(sent.stage, owner, sent.slot, rank, value.slot, chunk);
  edges_.push_back({chunk, owner, rank, sent.stage, depth});
  return value;
}

void TreeReduction::collect(int rank, int lo, int hi, int base, int chunk, int depth,
                            Sources& sources) {
  const int owner = owner_of(rank, lo, hi, chunk);
  if (owner == rank && hi - lo > 1) {
    const int middle = LeafTree::middle(lo, hi);
    const bool join_apart = !flatten_ && tree_.ranks(lo, hi).size() > 1;
    if (!join_apart) {
      collect(rank, lo, middle, base, chunk, depth + 1, sources);
      collect(rank, middle, hi, base, chunk, depth + 1, sources);
      return;
    }
  }
  const Value value = value_at(rank, lo, hi, chunk, depth);
  sources.slots[static_cast<size_t>(lo - base)] = value.slot;
  sources.stage = std::max(sources.stage, value.stage);
  if (value.received && builder_.slot(rank, value.slot) == Schedule::Slot::kPartial) {
    sources.reusable = value.slot;
  }
}

TreeReduction::Value TreeReduction::value_at(int rank, int lo, int hi, int chunk, int depth) {
  const auto key = std::make_tuple(rank, lo, hi, chunk);
  if (const auto known = values_.find(key); known != values_.end()) return known->second;
  const int owner = owner_of(rank, lo, hi, chunk);
  if (owner != rank) return values_[key] = receive(rank, lo, hi, chunk, owner, depth);
  if (hi - lo == 1) return leaf_at_owner(lo, chunk);

  Sources sources;
  sources.slots.resize(static_cast<size_t>(hi - lo), Schedule::kAbsent);
  const int middle = LeafTree::middle(lo, hi);
  collect(rank, lo, middle, lo, chunk, depth + 1, sources);
  collect(rank, middle, hi, lo, chunk, depth + 1, sources);
  Value value;
  value.stage = sources.stage;
  const bool is_result = lo == 0 && hi == tree_.size();
  // A received sum has no other reader and is in the caches: the new one replaces it.
  value.slot = is_result              ? 0
               : sources.reusable > 0 ? sources.reusable
                                      : scratch(rank, lo, hi, Schedule::Slot::kPartial, false);
  builder_.reduce(value.stage, rank, compressed(std::move(sources.slots)), value.slot, chunk,
                  /*order=*/hi - lo);
  return values_[key] = value;
}

int TreeReduction::reduce_to(int rank, int chunk) {
  const int owner = owner_of(rank, 0, tree_.size(), chunk);
  Value value = value_at(owner, 0, tree_.size(), chunk, 0);
  if (value.slot != 0) {  // one leaf only
    builder_.copy(value.stage, owner, value.slot, 0, chunk);
    value.slot = 0;
    values_[{owner, 0, tree_.size(), chunk}] = value;
  }
  if (owner != rank) builder_.message(value.stage++, owner, 0, rank, 0, chunk);
  last_stage_ = std::max(last_stage_, value.stage);
  return value.stage;
}

void spread(ScheduleBuilder& builder, std::vector<TreeReduction::Edge> edges,
            const std::vector<int>& owners, const std::vector<int>& ready, int first) {
  // Each rank gets the result from whom it sent its last part to, which is nearer to the owner.
  std::stable_sort(edges.begin(), edges.end(),
                   [](const auto& a, const auto& b) { return a.depth < b.depth; });
  int stages = 0;
  for (const auto& edge : edges) stages = std::max(stages, edge.stage + 1);
  constexpr int kNotThere = -1;
  const auto ranks = static_cast<size_t>(builder.num_ranks());
  std::vector<std::vector<int>> there(owners.size(), std::vector<int>(ranks, kNotThere));
  for (size_t chunk = 0; chunk < owners.size(); ++chunk) {
    there[chunk][static_cast<size_t>(owners[chunk])] = ready[chunk];
  }
  for (const auto& edge : edges) {
    std::vector<int>& at = there[static_cast<size_t>(edge.chunk)];
    int& local = at[static_cast<size_t>(edge.from)];
    if (local != kNotThere) continue;
    const int stage = std::max(at[static_cast<size_t>(edge.to)], first + stages - 1 - edge.stage);
    builder.message(stage, edge.to, 0, edge.from, 0, edge.chunk);
    local = stage + 1;
  }
  for (size_t chunk = 0; chunk < owners.size(); ++chunk) {
    for (size_t rank = 0; rank < ranks; ++rank) {  // those without replicas
      if (there[chunk][rank] != kNotThere) continue;
      builder.message(ready[chunk], owners[chunk], 0, static_cast<int>(rank), 0,
                      static_cast<int>(chunk));
    }
  }
}

ScheduleBuilder builder_for(const Request& request, std::string name,
                            std::vector<int64_t> borders) {
  const int ranks = request.placement.num_ranks();
  ScheduleBuilder builder(std::move(name), ranks, std::move(borders));
  for (int rank = 0; rank < ranks; ++rank) builder.add_slot(rank, Schedule::Slot::kResult);
  if (request.collective == Collective::kAllReduce ||
      request.collective == Collective::kReduceScatter) {
    for (const int rank : request.placement.rank_of_replica) {
      builder.add_slot(rank, Schedule::Slot::kValue);
    }
  }
  return builder;
}

std::vector<int64_t> equal_borders(int count) {
  std::vector<int64_t> borders(static_cast<size_t>(count) + 1);
  std::iota(borders.begin(), borders.end(), 0);
  return borders;
}

Schedule tree_reduce(const Request& request, std::string name, const LeafTree& tree,
                     const TreePlan& plan, bool everywhere) {
  ScheduleBuilder builder = builder_for(request, std::move(name), plan.borders);
  if (!everywhere) builder.set_alignment(1);
  TreeReduction reduction(builder, tree, plan.place);
  std::vector<int> ready;
  for (size_t chunk = 0; chunk < plan.owners.size(); ++chunk) {
    ready.push_back(reduction.reduce_to(plan.owners[chunk], static_cast<int>(chunk)));
  }
  if (everywhere) {
    spread(builder, reduction.edges(), plan.owners, ready, reduction.last_stage());
  }
  return std::move(builder).finish();
}

Schedule tree_gather(const Request& request, std::string name, const LeafTree& tree,
                     const TreePlan& plan) {
  // The reduction is written to unused memory; only its way back is needed.
  Request each = request;
  each.collective = Collective::kAllReduce;
  each.placement.rank_of_replica = tree.ranks(0, tree.size());
  ScheduleBuilder unread = builder_for(each, "", plan.borders);
  TreeReduction reduction(unread, tree, plan.place);
  for (size_t chunk = 0; chunk < plan.owners.size(); ++chunk) {
    reduction.reduce_to(plan.owners[chunk], static_cast<int>(chunk));
  }
  ScheduleBuilder builder = builder_for(request, std::move(name), plan.borders);
  builder.set_alignment(1);
  spread(builder, reduction.edges(), plan.owners, std::vector<int>(plan.owners.size(), 0), 0);
  return std::move(builder).finish();
}

}  // namespace strata::collective
