#pragma once

#include <memory>
#include <vector>

#include "optim/step/step.h"
#include "runtime/replica_group.h"
#include "tensor/arena.h"

namespace strata::optimizers {

/// As the tensors of a variable are laid out.
tensor::ArenaEntry layout_of(const Variable& variable);
/// The variables' values become those of a slot that is laid out alike: tensor i is entry i's.
void copy_variables(const std::vector<Entry>& entries, const tensor::Arena& slot);

/// Where the parameters and slots of a flat pass lie: in arenas, a copy of the parameters for each
/// replica of this process, or one for them all: see ReplicaOptions::share_storage.
///
/// Processes that share memory do as the threads of one: from the first step on the slots are in
/// memory of all of them, and each sees all copies of the parameters. What a program does to its
/// parameters between steps stays its process's own.
class FlatStorage {
 public:
  /// Moves the entries' variables into arenas, but those that another optimizer has moved.
  /// @param slots  An arena a slot, whose tensor i is entry i's.
  FlatStorage(ReplicaGroup& group, std::vector<Entry> entries, std::vector<tensor::Arena> slots);

  /// Before each step, by one replica, in all processes together. @param may_share  They share
  /// memory.
  void prepare(bool may_share);
  /// From now on slots hold only these elements of each entry.
  void keep_slots_of(const std::vector<collective::Range>& elements);
  /// The group has other replicas: what was shared is this process's own again.
  void reshape();

  /// With all processes of the group.
  bool shared() const { return shared_; }
  /// Every copy of an entry, this process's first.
  const std::vector<at::Tensor>& parameters(size_t entry) const { return parameters_[entry]; }
  /// The copies are so large that they leave the caches before they are read.
  bool past_caches() const;
  const at::Tensor& slot(size_t slot, size_t entry) const { return slot_views_[slot][entry]; }
  at::Tensor slot_view(size_t slot, size_t entry) const {
    return slots_[slot].view(static_cast<int64_t>(entry));
  }

 private:
  void move_parameters();
  void bind_storage(const std::vector<size_t>& order,
                    const std::shared_ptr<std::vector<tensor::Arena>>& arenas);
  void share(collective::Communicator& communicator);
  void find_parameters();
  void take_slots(std::vector<tensor::Arena> slots);
  std::vector<tensor::ArenaEntry> layouts(const std::vector<size_t>& entries) const;

  ReplicaGroup& group_;
  const int64_t bytes_;  // of one copy of the parameters
  const bool share_storage_;
  const std::vector<Entry> entries_;
  bool owns_homes_ = false;  // no other optimizer has moved its variables
  bool shared_ = false;
  std::vector<tensor::Arena> others_;                // the other processes' parameters
  std::vector<std::vector<at::Tensor>> parameters_;  // by entry and copy
  std::vector<tensor::Arena> slots_;
  std::vector<std::vector<at::Tensor>> slot_views_;  // by slot and entry
};

}  // namespace strata::optimizers
