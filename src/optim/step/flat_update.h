#pragma once

#include <memory>
#include <string>
#include <vector>

#include "optim/step/flat_storage.h"
#include "optim/step/step.h"
#include "optim/step/update_operator.h"
#include "runtime/replica_group.h"
#include "tensor/arena.h"

namespace strata::optimizers {

/// The CPU's update: parameters and slots in arenas, the replicas' gradients added where they are
/// while the rule runs over them, block by block in the first-level cache. Nothing is packed or
/// copied; each replica does one share of the elements, float32 or float64.
/// Where processes share memory, the share is one for all of them.
class FlatUpdate : public UpdatePass {
 public:
  FlatUpdate(const tensor::UpdateRule& rule, ReplicaGroup& group, const std::vector<Entry>& entries,
             const ExtraSlots& extras);

  bool prepare(bool may_share) override;
  std::vector<collective::Range> elements_of_process(size_t entry) const override;
  void own(std::vector<collective::Range> elements) override;
  bool adds() const override { return true; }
  void prepare_norms() override;
  void reduce_for_norms(Step& step, int replica) override;
  std::vector<double> squared_norms(Step& step) override;
  void accumulate(const Step& step, int replica) override;
  void update(const Step& step, int replica) override;
  void average(const Step& step, int replica) override;
  void wrote(size_t entry) override;
  void reshape() override;
  at::Tensor slot(size_t entry, int slot) const override;

 private:
  /// Elements [begin, end) of an entry.
  struct Part {
    size_t entry;
    int64_t begin;
    int64_t end;
  };

  /// The elements of an entry that this process updates, alone or with those that share memory.
  collective::Range owned(size_t entry) const;
  /// Of a replica of this process.
  const std::vector<Part>& share_of(int local) const {
    return shares_[static_cast<size_t>(storage_.shared() ? group_.replica_id(local) : local)];
  }
  std::vector<tensor::Arena> make_slots() const;
  std::vector<std::vector<Part>> make_shares() const;
  /// What `part` is updated by, but for gradients, behind the lists' others.
  void add_part(UpdateLists& lists, const Part& part, double weight_decay) const;
  static at::Tensor elements_of(const at::Tensor& tensor, const Part& part);
  UpdateSettings settings_of(const Step& step) const;
  void find_halves();

  const at::Tensor& accumulator(size_t entry) const {
    return storage_.slot(static_cast<size_t>(rule_.num_slots() + extras_.average), entry);
  }
  /// The entries whose gradients are dense.
  std::vector<size_t> added_entries(const Step& step) const;

  const tensor::UpdateRule& rule_;
  const std::string rule_text_;  // as operators take it
  const ExtraSlots extras_;
  ReplicaGroup& group_;
  int replicas_;  // of this process
  const std::vector<Entry> entries_;
  FlatStorage storage_;
  std::vector<collective::Range> owned_;   // by entry; empty: all of each
  std::vector<std::vector<Part>> shares_;  // by replica: of the group if shared, else here

  std::vector<std::vector<at::Tensor>> halves_;  // by entry: copies in bfloat16 to be written too

  std::vector<UpdateLists> lists_;  // by replica of this process: memory of the last step's

  // For clipping by norm, and finding infinities.
  std::unique_ptr<tensor::Arena> reduced_;  // the gradients, added
  std::vector<at::Tensor> reduced_views_;   // by entry
  at::Tensor squares_;                      // by entry and block
};

}  // namespace strata::optimizers
