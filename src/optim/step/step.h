#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "runtime/replica_group.h"
#include "strata/collective/schedule.h"
#include "strata/core/error.h"
#include "strata/runtime/variable.h"
#include "tensor/arena.h"
#include "tensor/update_rule.h"

namespace strata::optimizers {

/// A variable in the flat order of an optimizer.
struct Entry {
  Variable variable;
  bool decays = true;  ///< Takes part in weight decay.
};

/// Gradient of some rows of a variable, equal rows added up.
struct RowGradient {
  at::Tensor rows;    ///< `[n]`, int64, ascending.
  at::Tensor values;  ///< `[n, *shape[1:]]`, contiguous.
};

/// What a step knows of one variable's gradient.
struct EntryGradient {
  bool used = false;                ///< Some replica has a gradient.
  std::vector<at::Tensor> sources;  ///< To be added in tree order; undefined: absent.
  std::optional<RowGradient> rows;  ///< Instead of sources, for sparse gradients; already added.
  double scale = 1;                 ///< Denominator and norm clipping.
  /// Norm clipping that the host does not know, `[]`, float64; undefined: 1. Beside `scale`.
  at::Tensor factor = {};

  /// As it is at first; `sources` keeps its memory.
  void clear() {
    used = false;
    sources.clear();
    rows.reset();
    scale = 1;
    factor.reset();
  }
};

/// One step of an optimizer, made by the last replica to arrive and read by all.
struct Step {
  tensor::StepScalars scalars;
  tensor::PreparedStep prepared;
  double clip_value = 0;
  bool touched_rows_only = false;
  double weight_decay = 0;
  double weight = 0;  ///< Of all replicas' examples; gradients are divided by it.
  std::vector<EntryGradient> gradients;  ///< By entry.
  bool clear_accumulators = false;       ///< The gradients are the accumulators'; then start anew.
  /// Whether the update takes place, `[]`, bool, on a GPU; undefined: it does.
  at::Tensor condition = {};
  double average_rate = 0;  ///< How much of the new weights enters their average.
  bool overwrite_by_average = false;
};

/// Slots that stand behind the rule's, in this order.
struct ExtraSlots {
  bool average = false;
  bool accumulator = false;

  int count() const { return average + accumulator; }
};

/// How the replicas carry a step out. Between two barriers each replica calls the same function
/// with its own id.
class UpdatePass {
 public:
  virtual ~UpdatePass() = default;

  /// By one replica before each step, in all processes of the group together.
  /// @param may_share  The processes share memory, and their gradients are there.
  /// @return they share parameters and slots, and each does its share of a step for all: they have
  ///   to synchronize where its replicas do.
  virtual bool prepare(bool may_share) {
    static_cast<void>(may_share);
    return false;
  }
  /// Where they do: the elements of entry `entry` that this process updates, in ascending ranges.
  virtual std::vector<collective::Range> elements_of_process(size_t entry) const {
    static_cast<void>(entry);
    return {};
  }

  /// From now on this process updates only these elements of each entry, `elements[entry]`, and
  /// keeps no slots of the others. By one replica; until `reshape`.
  virtual void own(std::vector<collective::Range> elements) {
    static_cast<void>(elements);
    throw Error(ErrorCode::kInternal, "[optim] own: this pass updates whole variables");
  }

  /// Memory in which the pass reads gradients that are there already.
  struct GradientMemory {
    std::vector<size_t> entries;  ///< By tensor.
    std::vector<tensor::Arena>
        arenas;  ///< By local replica; each laid out as the entries' variables.
  };
  /// By one replica, in a step before its update. Until `reshape`, or the next call.
  /// @param order  All entries, those first whose gradients backward makes first: the best order for the
  ///   memory, of which neighbours are summed together.
  /// @return without arenas: it reads gradients anywhere.
  virtual GradientMemory gradient_memory(const std::vector<size_t>& order) {
    static_cast<void>(order);
    return {};
  }

  /// Gradients may have several sources: it adds them.
  virtual bool adds() const { return false; }

  /// Makes room for the added gradients. By one replica, before a barrier.
  virtual void prepare_norms() = 0;
  /// Replica `replica`'s part of adding up the gradients and of the squared norms. Afterwards, and
  /// after a barrier, `squared_norms` is complete and the gradients need not be added again.
  virtual void reduce_for_norms(Step& step, int replica) = 0;
  /// Sum of squares of each entry's gradient, unscaled. By one replica, between barriers.
  virtual std::vector<double> squared_norms(Step& step) = 0;

  /// The same as a tensor of them on the GPU of the first replica, `[entries]`, float64, for which
  /// the host does not wait. Undefined: the gradients are on no GPU. Such a pass multiplies by
  /// `EntryGradient::factor`, and updates by `Step::condition`.
  virtual at::Tensor squared_norms_on_gpu(Step& step) {
    static_cast<void>(step);
    return {};
  }

  /// Adds the scaled gradients to the accumulators.
  virtual void accumulate(const Step& step, int replica) = 0;
  virtual void update(const Step& step, int replica) = 0;
  /// Moves the averages towards the weights; perhaps they become the weights then.
  virtual void average(const Step& step, int replica) = 0;

  /// By one replica, after `update` or `average` has written entry `entry`, whose version is new.
  virtual void wrote(size_t entry) { static_cast<void>(entry); }
  /// By one replica, when strata has done all that it does to the variables in a step.
  virtual void end_step() {}
  /// Where others update the same variables: how many updates there have been.
  virtual std::optional<int64_t> updates() const { return std::nullopt; }

  /// Where values are kept elsewhere, outside `run`: brings there what the program has written, or
  /// takes what is there.
  /// @param updates  That what is written has had.
  virtual void flush(int64_t updates) { static_cast<void>(updates); }
  virtual void fetch() {}

  /// The group has other replicas.
  virtual void reshape() = 0;

  /// The values of slot `slot` of entry `entry`, `[*shape]`. The extra ones follow the rule's.
  virtual at::Tensor slot(size_t entry, int slot) const = 0;
  /// Every copy of it: the replicas of one flat pass share a copy, others have one each.
  virtual std::vector<at::Tensor> slot_copies(size_t entry, int slot) const {
    return {this->slot(entry, slot)};
  }
};

/// For variables of one floating dtype: on CPUs one vectorised pass over flat storage, of which
/// every replica does a share; elsewhere operators on each replica's device.
std::unique_ptr<UpdatePass> make_update_pass(const tensor::UpdateRule& rule, ReplicaGroup& group,
                                             const std::vector<Entry>& entries,
                                             const ExtraSlots& extras);

}  // namespace strata::optimizers
