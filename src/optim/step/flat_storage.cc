#include "optim/step/flat_storage.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "collective/communicator.h"
#include "optim/step/update_operator.h"
#include "runtime/replica_group.h"
#include "runtime/variable_placement.h"

namespace strata::optimizers {
namespace {

/// Parameters of at most this many bytes fit into a core's own cache. From there a replica reads a
/// copy of its own faster than, line by line, what others have just written in their copies.
constexpr int64_t kSmall = int64_t{2} << 20;

/// Copies of more bytes than that have left the caches before they are read.
constexpr int64_t kLarge = int64_t{32} << 20;

/// Of all parameters.
int64_t bytes_of(const std::vector<Entry>& entries) {
  int64_t bytes = 0;
  for (const Entry& entry : entries) {
    bytes += static_cast<int64_t>(entry.variable.on_replica(0).nbytes());
  }
  return bytes;
}

/// All processes decide alike.
bool shares_parameters(const ReplicaGroup& group, int64_t bytes) {
  const VariablePlacement& placement = group.placement();
  if (!placement.may_share_storage(group)) return false;
  return group.options().replicas.share_storage || !placement.has_copy_per_replica() ||
         bytes > kSmall;
}

}  // namespace

tensor::ArenaEntry layout_of(const Variable& variable) {
  const at::Tensor& tensor = variable.on_replica(0);
  return {.sizes = tensor.sizes().vec(), .strides = tensor.strides().vec()};
}

void copy_variables(const std::vector<Entry>& entries, const tensor::Arena& slot) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < entries.size(); ++i) {
    slot.view(static_cast<int64_t>(i)).copy_(entries[i].variable.on_replica(0));
  }
}

FlatStorage::FlatStorage(ReplicaGroup& group, std::vector<Entry> entries,
                         std::vector<tensor::Arena> slots)
    : group_(group),
      bytes_(bytes_of(entries)),
      share_storage_(shares_parameters(group, bytes_)),
      entries_(std::move(entries)) {
  move_parameters();
  find_parameters();
  take_slots(std::move(slots));
}

std::vector<tensor::ArenaEntry> FlatStorage::layouts(const std::vector<size_t>& entries) const {
  std::vector<tensor::ArenaEntry> result;
  for (const size_t i : entries) result.push_back(layout_of(entries_[i].variable));
  return result;
}

void FlatStorage::move_parameters() {
  // A variable that another optimizer has moved stays where it is. The last variable comes first:
  // backward produces its gradient first.
  std::vector<size_t> order;
  for (size_t i = entries_.size(); i-- > 0;) {
    if (!entries_[i].variable.state()->has_bound_storage()) order.push_back(i);
  }
  owns_homes_ = order.size() == entries_.size();
  const size_t copies = share_storage_ ? 1 : static_cast<size_t>(group_.num_local_replicas());
  auto arenas = std::make_shared<std::vector<tensor::Arena>>();
  for (size_t i = 0; i < copies; ++i) {
    arenas->emplace_back(layouts(order), entries_[0].variable.dtype());
  }
  bind_storage(order, arenas);
}

/// Entry `order[i]` becomes tensor i of the arenas, one a copy.
void FlatStorage::bind_storage(const std::vector<size_t>& order,
                               const std::shared_ptr<std::vector<tensor::Arena>>& arenas) {
  for (size_t place = 0; place < order.size(); ++place) {
    std::vector<at::Tensor> homes;
    for (size_t r = 0; r < static_cast<size_t>(group_.num_local_replicas()); ++r) {
      homes.push_back((*arenas)[share_storage_ ? 0 : r].view(static_cast<int64_t>(place)));
    }
    entries_[order[place]].variable.state()->bind_storage(homes, share_storage_, arenas);
  }
}

void FlatStorage::prepare(bool may_share) {
  if (!owns_homes_) {
    find_parameters();  // the other optimizer may have moved them again
  } else if (!shared_ && may_share) {
    share(*group_.communicator());
  }
}

void FlatStorage::share(collective::Communicator& communicator) {
  const at::ScalarType dtype = entries_[0].variable.dtype();
  std::vector<size_t> order(entries_.size());
  std::iota(order.rbegin(), order.rend(), 0);
  std::vector<size_t> copies;  // by rank
  for (int rank = 0; rank < communicator.num_ranks(); ++rank) {
    copies.push_back(share_storage_ ? 1 : communicator.placement().replicas_of(rank).size());
  }
  const auto own = std::make_shared<std::vector<tensor::Arena>>();
  for (size_t copy = 0; copy < std::ranges::max(copies); ++copy) {
    std::vector<at::Tensor> memory;
    for (size_t rank = 0; rank < copies.size(); ++rank) {
      const auto allocate = [&](int64_t elements) {
        if (memory.empty()) memory = communicator.buffers(elements, dtype);
        return memory[rank];
      };
      const tensor::Arena arena(layouts(order), dtype, allocate);
      if (copy >= copies[rank]) continue;
      if (static_cast<int>(rank) == communicator.rank()) {
        own->push_back(arena);
      } else {
        others_.push_back(arena);
      }
    }
  }
  bind_storage(order, own);

  std::vector<tensor::Arena> slots;
  for (const tensor::Arena& slot : slots_) {
    slots.push_back(slot.make_like(
        [&](int64_t elements) { return communicator.common_buffer(elements, dtype); }));
    if (communicator.rank() == 0) slots.back().flat().copy_(slot.flat());  // all have the same
  }
  take_slots(std::move(slots));
  shared_ = true;
  find_parameters();
  communicator.barrier({.name = "parameters moved"});
}

void FlatStorage::keep_slots_of(const std::vector<collective::Range>& elements) {
  std::vector<tensor::Arena> slots;
  for (const tensor::Arena& slot : slots_) {
    slots.push_back(slot.make_like());  // what is not written takes no memory
    for (size_t e = 0; e < entries_.size(); ++e) {
      const auto kept = [&](const tensor::Arena& arena) {
        return in_memory_order(arena.view(static_cast<int64_t>(e)))
            .slice(0, elements[e].begin, elements[e].end);
      };
      kept(slots.back()).copy_(kept(slot));
    }
  }
  take_slots(std::move(slots));
}

bool FlatStorage::past_caches() const { return bytes_ > kLarge; }

void FlatStorage::reshape() {
  if (shared_) {  // from here on with others, or alone: see prepare()
    shared_ = false;
    others_.clear();
    std::vector<tensor::Arena> slots;
    for (const tensor::Arena& slot : slots_) {
      slots.push_back(slot.make_like());
      slots.back().flat().copy_(slot.flat());
    }
    take_slots(std::move(slots));
  }
  find_parameters();
}

void FlatStorage::find_parameters() {
  parameters_.clear();
  for (const Entry& entry : entries_) {
    parameters_.emplace_back();
    const int copies = entry.variable.state()->shares_storage() ? 1 : group_.num_local_replicas();
    for (int r = 0; r < copies; ++r) {
      parameters_.back().push_back(entry.variable.on_replica(r));
    }
  }
  for (const tensor::Arena& arena : others_) {  // the last variable comes first
    for (size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i].push_back(arena.view(static_cast<int64_t>(parameters_.size() - 1 - i)));
    }
  }
}

void FlatStorage::take_slots(std::vector<tensor::Arena> slots) {
  slots_ = std::move(slots);
  slot_views_.clear();
  for (const tensor::Arena& slot : slots_) {
    slot_views_.emplace_back();
    for (size_t e = 0; e < entries_.size(); ++e) {
      slot_views_.back().push_back(slot.view(static_cast<int64_t>(e)));
    }
  }
}

}  // namespace strata::optimizers
