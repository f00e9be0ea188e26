#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "optim/step/step.h"
#include "runtime/parameter_store.h"
#include "runtime/replica_group.h"
#include "tensor/arena.h"

namespace strata::optimizers {

/// The update where values and slots are kept elsewhere: the gradients of this process's replicas
/// are added into flat memory, which is sent to the store, and its values are written back into the
/// variables. Moving averages and accumulators stay here. The first replica does it all. T: float
/// or double.
///
/// A sparse gradient counts as a dense one, and a variable that no loss depends on has a gradient
/// of zero.
class RemoteUpdate final : public UpdatePass {
 public:
  RemoteUpdate(const tensor::UpdateRule& rule, ReplicaGroup& group,
               const std::vector<Entry>& entries, const ExtraSlots& extras);

  bool adds() const override { return true; }
  void prepare_norms() override {}
  void reduce_for_norms(Step& step, int replica) override;
  std::vector<double> squared_norms(Step& step) override;
  void accumulate(const Step& step, int replica) override;
  void update(const Step& step, int replica) override;
  void average(const Step& step, int replica) override;
  void end_step() override { note_versions(); }
  std::optional<int64_t> updates() const override { return table_->updates(); }
  void flush(int64_t updates) override;
  void fetch() override;
  void reshape() override {}
  at::Tensor slot(size_t entry, int slot) const override;

 private:
  /// A copy of a slot that is kept elsewhere, for who reads and writes single variables' parts.
  struct SlotCopy {
    tensor::Arena values;
    std::vector<at::Tensor> views;  // by entry
    std::vector<int64_t> versions;  // of the views, when they were read
  };

  bool in_place() const;  // the replicas' variables are these values themselves
  std::function<at::Tensor(int64_t)> buffers() const;
  void move_variables();
  void add_gradients(const Step& step, bool scaled);
  void say_all_rows(const Entry& entry);
  std::array<double, 2> factors_of(const Step& step, size_t entry) const;
  void scale_gradient(const Step& step, size_t entry);
  bool variables_changed() const;
  void write_what_changed(int64_t updates);
  void finish_push();
  void show_values();
  void note_versions();
  SlotCopy& slot_copy(int slot) const;

  const tensor::UpdateRule& rule_;
  ReplicaGroup& group_;
  const std::vector<Entry> entries_;
  const ExtraSlots extras_;
  tensor::Arena values_;
  tensor::Arena gradients_;
  std::vector<at::Tensor> gradient_views_;  // by entry
  tensor::Arena arriving_;                  // where the table pulls ahead; else empty
  bool begun_ = false;                      // a push, whose values arrive there
  bool said_all_rows_ = false;
  bool added_ = false;                // this step's gradients are there
  std::vector<tensor::Arena> local_;  // average, accumulator
  std::unique_ptr<ParameterStore::Table> table_;
  std::vector<int64_t> versions_;  // of the variables, as this pass has left them
  bool overwritten_ = false;       // by their averages
  mutable std::vector<SlotCopy> slots_;
};

}  // namespace strata::optimizers
