#pragma once

#include <c10/core/Allocator.h>

namespace strata::test::emulated_gpu {

/// Device memory. Its addresses lie in a window that no one may read or write, as a GPU's do: a
/// program that takes a device pointer for a host's crashes here, too. What the bytes are is known
/// to `host_address` alone. Fresh memory is all ones, which is NaN, as nothing clears a GPU's.
class Memory final : public c10::Allocator {
 public:
  static Memory& instance();

  /// On the calling thread's current device.
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, size_t bytes) const override;

  /// Where the host finds what lies at this device address.
  void* host_address(const void* device) const;
  /// The device address of what the host finds here; null where that is no device's memory.
  void* device_address(const void* host) const;

  size_t bytes_in_use() const;

 private:
  Memory();
  struct Ranges;
  Ranges* ranges_;  // never freed: tensors may outlive what is static
};

}  // namespace strata::test::emulated_gpu
