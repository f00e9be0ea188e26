#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace strata::tensor {

/// `value` on `device`, where the host does not wait for a GPU: what it has goes there through pinned
/// memory, a number as an argument of a kernel. From a GPU to the host it waits, as `Tensor::to`.
/// Threads: any. Cost: a copy by the host more than a copy that waits.
at::Tensor to_device(const at::Tensor& value, c10::Device device);

}  // namespace strata::tensor
