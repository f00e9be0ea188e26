#pragma once

#include <memory>
#include <vector>

#include "optim/step/flat_storage.h"
#include "optim/step/step.h"
#include "runtime/replica_group.h"
#include "tensor/arena.h"

namespace strata::optimizers {

/// The CPU's update: parameters and slots in arenas, the replicas' gradients added where they are
/// while the rule runs over them, block by block in the first-level cache. Nothing is packed or
/// copied; each replica does one share of the elements. T: float or double.
/// Where processes share memory, the share is one for all of them.
template <typename T>
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
  template <typename Work>
  void for_each_block(const Step& step, const Part& part, bool skip_untouched,
                      const Work& work) const;
  template <typename Work>
  void for_each_row(const Step& step, const Part& part, bool skip_untouched,
                    const Work& work) const;
  void update_whole(const Step& step, const Part& part) const;
  void apply_in_row_order(const Step& step, size_t entry) const;
  tensor::UpdateSpan<T> span_of(const Step& step, size_t entry, const T* gradient, int64_t begin,
                                int64_t size) const;
  void apply(const Step& step, size_t entry, const T* gradient, int64_t begin, int64_t size) const;

  /// What was written to an entry's elements [begin, begin + size), to all copies.
  void spread(size_t entry, int64_t begin, int64_t size) const;
  void find_halves();

  T* accumulator(size_t entry) const {
    return storage_.slot(static_cast<size_t>(rule_.num_slots() + extras_.average), entry);
  }

  const tensor::UpdateRule& rule_;
  const ExtraSlots extras_;
  ReplicaGroup& group_;
  int replicas_;  // of this process
  const std::vector<Entry> entries_;
  FlatStorage<T> storage_;
  std::vector<collective::Range> owned_;   // by entry; empty: all of each
  std::vector<std::vector<Part>> shares_;  // by replica: of the group if shared, else here

  std::vector<std::vector<at::Tensor>> halves_;  // by entry: copies in bfloat16 to be written too

  // For clipping by norm, finding infinities, and rules of whole variables.
  std::unique_ptr<tensor::Arena> reduced_;          // the gradients, added
  std::vector<T*> reduced_data_;                    // by entry
  std::vector<std::vector<double>> partial_norms_;  // by entry and block
};

}  // namespace strata::optimizers
