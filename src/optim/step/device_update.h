#pragma once

#include <vector>

#include "optim/step/step.h"
#include "runtime/replica_group.h"
#include "tensor/arena.h"

namespace strata::optimizers {

/// The update by operators, on each replica's own device with slots of its own: GPUs, and dtypes
/// that the flat pass of the CPU does not know. Gradients come reduced, one per replica. Where
/// variables have one copy, the first replica updates it, with the only slots, where it lies.
///
/// Launching kernels dominates a GPU's time unless models are large. So parameters and slots lie in
/// arenas, gradients are copied together by one kernel, and where all variables are treated alike
/// the rule runs once for all.
class DeviceUpdate : public UpdatePass {
 public:
  DeviceUpdate(const tensor::UpdateRule& rule, ReplicaGroup& group,
               const std::vector<Entry>& entries, const ExtraSlots& extras);

  GradientMemory gradient_memory(const std::vector<size_t>& order) override;
  void prepare_norms() override {}
  void reduce_for_norms(Step&, int) override {}
  std::vector<double> squared_norms(Step& step) override;
  at::Tensor squared_norms_on_gpu(Step& step) override;
  void accumulate(const Step& step, int replica) override;
  void update(const Step& step, int replica) override;
  void average(const Step& step, int replica) override;
  void reshape() override;
  at::Tensor slot(size_t entry, int slot) const override;
  std::vector<at::Tensor> slot_copies(size_t entry, int slot) const override;

 private:
  /// One copy of the variables. Tensor i of an arena is entry `order_[i]`'s.
  struct Copy {
    std::vector<tensor::Arena> slots;
    std::vector<std::vector<at::Tensor>> slots_of;  // by entry
    at::Tensor parameters;                          // all of them, if they are in an arena
    tensor::Arena gradients;                        // likewise
    std::vector<at::Tensor> gradient_of;            // by entry
  };

  void update_always(const Step& step, int replica);
  std::vector<at::Tensor> state_of(int replica);
  /// How many copies of a variable are updated.
  size_t num_copies() const;
  bool updates(int replica) const { return static_cast<size_t>(replica) < num_copies(); }
  at::Tensor parameter(size_t entry, int replica) const;
  /// The first replica's, by entry.
  std::vector<at::Tensor> first_parameters() const;
  Copy make_copy(int replica) const;
  void move_parameters();
  void move_all(const std::vector<size_t>& order);
  /// Whether one call for all variables does what a call for each would.
  bool treats_all_alike(const Step& step) const;
  /// The gradients as the parameters are laid out, in one tensor.
  at::Tensor flat_gradient(const Step& step, int replica);
  Copy& copy_of(int replica) { return copies_[static_cast<size_t>(replica)]; }

  const tensor::UpdateRule& rule_;
  ReplicaGroup& group_;
  const ExtraSlots extras_;
  const std::vector<Entry> entries_;
  std::vector<size_t> order_;  // the last entry first, until backward has shown another
  bool is_flat_ = false;       // all parameters lie in arenas of this pass
  std::vector<Copy> copies_;
};

}  // namespace strata::optimizers
