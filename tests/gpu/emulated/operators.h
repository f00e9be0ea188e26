#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <string_view>
#include <vector>

#include "gpu/emulated/order.h"

namespace strata::test::emulated_gpu {

/// An operator's work on the calling thread's current stream of a device. While it lives, operators
/// on the host are libtorch's own, not strata's for the CPU.
class Launch {
 public:
  /// @param reads, writes  Undefined tensors, and tensors of the host, do not count.
  Launch(std::string_view name, c10::Device device, const std::vector<at::Tensor>& reads,
         const std::vector<at::Tensor>& writes = {});

  /// A tensor on the device with what `host` holds.
  at::Tensor on_device(const at::Tensor& host) const;
  /// This work writes the tensor, which was made since it began.
  void writes(const at::Tensor& made) const;

  const Work& work() const { return work_; }

 private:
  c10::impl::ExcludeDispatchKeyGuard plain_;
  c10::Device device_;
  Work work_;
};

/// The bytes of a tensor on a device, as the host sees them.
at::Tensor on_host(const at::Tensor& tensor);

/// From a tensor's first byte to its last, on a device or in pinned memory.
std::vector<Bytes> bytes_of(const at::Tensor& tensor);

}  // namespace strata::test::emulated_gpu
