#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "runtime/replica_group.h"

namespace strata {

class ParameterStore;

/// Where the copies of a strategy's variables live, what updates them, and where their gradients
/// are added up. A strategy chooses it when it makes its group. This one is that of mirrored
/// variables: every replica has a copy, and optimizers keep the copies equal.
/// Threads: any; it does not change.
class VariablePlacement {
 public:
  /// A new variable, as its replicas find it.
  struct Copies {
    at::Tensor central;        ///< The only copy, of which replicas have mirrors; undefined: none.
    bool one_storage = false;  ///< The replicas' tensors are one storage.
  };

  virtual ~VariablePlacement();

  /// Each replica may write to a copy of its own. False: there is one copy for all replicas.
  virtual bool has_copy_per_replica() const { return true; }
  /// Gives the tensors of a variable that is synchronized on write the storage that they are to
  /// have.
  /// @param replicas  One a replica of this process, on its device, with equal values.
  virtual Copies place(const ReplicaGroup& group, const std::vector<at::Tensor>& replicas) const;
  /// What an optimizer trains has one value for all replicas of this process, in one storage or in
  /// copies that the optimizer keeps equal.
  virtual bool may_share_storage(const ReplicaGroup& group) const;

  /// The replicas of this process update all copies together, each a part of the elements. False:
  /// each copy is updated as a whole, where it is.
  virtual bool updates_together(const ReplicaGroup& group) const { return group.all_cpu(); }
  /// What updates the values in place of this process, and keeps them; null: it does not exist.
  virtual ParameterStore* store() const { return nullptr; }
  /// The workers that train the same variables, each in steps of its own.
  virtual Workers workers() const { return {}; }

  /// Where gradients of all replicas are brought to be added, since the only copy is there. Unset:
  /// every replica takes part in the sum, or gets it.
  virtual std::optional<at::Device> gradient_device(const ReplicaGroup& group) const;
};

}  // namespace strata
