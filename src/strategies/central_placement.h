#pragma once

#include <optional>
#include <vector>

#include "runtime/replica_group.h"
#include "runtime/variable_placement.h"

namespace strata::detail {

/// One copy of each variable, on one device. Replicas on the same device read the copy itself,
/// others read mirrors of it. One process only.
class CentralPlacement final : public VariablePlacement {
 public:
  explicit CentralPlacement(at::Device device) : device_(device) {}

  bool has_copy_per_replica() const override { return false; }
  Copies place(const ReplicaGroup& group, const std::vector<at::Tensor>& replicas) const override;
  bool may_share_storage(const ReplicaGroup& group) const override;
  bool updates_together(const ReplicaGroup& group) const override;
  std::optional<at::Device> gradient_device(const ReplicaGroup& group) const override;

 private:
  const at::Device device_;
};

}  // namespace strata::detail
