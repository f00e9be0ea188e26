#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace strata::test::emulated_gpu {

/// An operator's work on a device. While it lives, operators on the host are libtorch's own, not
/// strata's for the CPU.
class Launch {
 public:
  Launch();

 private:
  c10::impl::ExcludeDispatchKeyGuard plain_;
};

/// The bytes of a tensor on a device, as the host sees them.
at::Tensor on_host(const at::Tensor& tensor);

/// A tensor on `device` with what `host` holds.
at::Tensor on_device(const at::Tensor& host, c10::Device device);

}  // namespace strata::test::emulated_gpu
