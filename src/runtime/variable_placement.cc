#include "runtime/variable_placement.h"
#include "runtime/replica_group.h"

namespace strata {

VariablePlacement::~VariablePlacement() = default;

VariablePlacement::Copies VariablePlacement::place(const ReplicaGroup&,
                                                   const std::vector<at::Tensor>&) const {
  return {};
}

bool VariablePlacement::may_share_storage(const ReplicaGroup& group) const {
  return group.options().replicas.share_storage.value_or(true) && group.all_cpu();
}

std::optional<at::Device> VariablePlacement::gradient_device(const ReplicaGroup&) const {
  return std::nullopt;
}

}  // namespace strata
