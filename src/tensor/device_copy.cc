#include "tensor/device_copy.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

namespace strata::tensor {

at::Tensor to_device(const at::Tensor& value, c10::Device device) {
  if (!value.defined() || value.device() == device) return value;
  const bool from_host = value.is_cpu() && !device.is_cpu() && value.layout() == at::kStrided;
  if (!from_host || value.numel() == 0 || value.is_pinned()) {
    return value.to(device, /*non_blocking=*/from_host);
  }
  if (value.dim() == 0) return at::full({}, value.item(), value.options().device(device));
  at::Tensor pinned =
      at::empty_like(value, value.options().pinned_memory(true), at::MemoryFormat::Preserve);
  return pinned.copy_(value).to(device, /*non_blocking=*/true);
}

}  // namespace strata::tensor
