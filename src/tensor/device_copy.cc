#include "tensor/device_copy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace strata::tensor {

at::Tensor to_device(const at::Tensor& value, c10::Device device) {
  if (!value.defined() || value.device() == device) return value;
  // The number is an argument of a kernel. In a step that is recorded it has no memory to ask about.
  const bool is_number = value.is_cpu() && !device.is_cpu() && value.dim() == 0;
  if (is_number) return at::empty({}, value.options().device(device)).fill_(value);
  const bool from_host = value.is_cpu() && !device.is_cpu() && value.layout() == at::kStrided;
  if (!from_host || value.numel() == 0 || value.is_pinned()) {
    return value.to(device, /*non_blocking=*/from_host);
  }
  at::Tensor pinned =
      at::empty_like(value, value.options().pinned_memory(true), at::MemoryFormat::Preserve);
  return pinned.copy_(value).to(device, /*non_blocking=*/true);
}

}  // namespace strata::tensor
