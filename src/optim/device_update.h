#pragma once

#include <vector>

#include "optim/step.h"

namespace strata::optimizers {

/// The update by operators, on each replica's own device with slots of its own: GPUs, and dtypes
/// that the flat pass does not know. Gradients come reduced, one per replica. Where variables have
/// one copy, the first replica updates it, with the only slots, where it lies.
class DeviceUpdate : public UpdatePass {
 public:
  DeviceUpdate(const tensor::UpdateRule& rule, ReplicaGroup& group,
               const std::vector<Entry>& entries, const ExtraSlots& extras);

  void prepare_norms() override {}
  void reduce_for_norms(Step&, int) override {}
  std::vector<double> squared_norms(Step& step) override;
  void accumulate(const Step& step, int replica) override;
  void update(const Step& step, int replica) override;
  void average(const Step& step, int replica) override;
  void reshape() override;
  at::Tensor slot(size_t entry, int slot) const override;
  std::vector<at::Tensor> slot_copies(size_t entry, int slot) const override;

 private:
  /// How many copies of a variable are updated.
  size_t num_copies() const;
  bool updates(int replica) const { return static_cast<size_t>(replica) < num_copies(); }
  at::Tensor parameter(size_t entry, int replica) const;
  std::vector<at::Tensor>& slots_of(int replica, size_t entry) {
    return slots_[static_cast<size_t>(replica)][entry];
  }

  const tensor::UpdateRule& rule_;
  ReplicaGroup& group_;
  const ExtraSlots extras_;
  const std::vector<Entry> entries_;
  std::vector<std::vector<std::vector<at::Tensor>>> slots_;  // by copy, entry, slot
};

}  // namespace strata::optimizers
