#include "strategies/central_placement.h"
#include "runtime/replica_group.h"

#include <ATen/core/grad_mode.h>

namespace strata::detail {

bool CentralPlacement::may_share_storage(const ReplicaGroup& group) const {
  return device_.is_cpu() && VariablePlacement::may_share_storage(group);
}

bool CentralPlacement::updates_together(const ReplicaGroup& group) const {
  return may_share_storage(group);
}

std::optional<at::Device> CentralPlacement::gradient_device(const ReplicaGroup& group) const {
  if (may_share_storage(group)) return std::nullopt;
  return device_;
}

VariablePlacement::Copies CentralPlacement::place(const ReplicaGroup& group,
                                                  const std::vector<at::Tensor>& replicas) const {
  const at::NoGradGuard no_grad;
  const at::Tensor& first = replicas[0];
  if (may_share_storage(group)) {
    for (const at::Tensor& replica : replicas) replica.set_data(first.variable_data());
    return {.central = {}, .one_storage = true};
  }
  at::Tensor central = first.detach().to(device_, first.scalar_type(), /*non_blocking=*/false,
                                         /*copy=*/true);
  central.set_requires_grad(first.requires_grad());
  if (group.options().replicas.share_storage.value_or(true)) {
    for (const at::Tensor& replica : replicas) {
      if (replica.device() == device_) replica.set_data(central.variable_data());
    }
  }
  return {.central = std::move(central), .one_storage = false};
}

}  // namespace strata::detail
