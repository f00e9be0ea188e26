#pragma once

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include "gpu/emulated/order.h"

namespace strata::test::emulated_gpu {

/// Device memory. Its addresses lie in a window that no one may read or write, as a GPU's do: a
/// program that takes a device pointer for a host's crashes here, too. What the bytes are is known
/// to `host_address` alone. Fresh and freed memory is all ones, which is NaN.
///
/// As libtorch's caching allocator: memory belongs to the stream that was current when it was
/// allocated, and when it is freed that stream may have it again at once, whatever other streams
/// still do with it (`record_stream`).
class Memory final : public c10::Allocator {
 public:
  static Memory& instance();

  /// On the calling thread's current device and stream.
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, size_t bytes) const override;
  /// The memory is handed out again when `stream` has done what it does at the time of its end.
  void record_stream(const void* device, const c10::Stream& stream);

  /// Where the host finds what lies at this device address.
  void* host_address(const void* device) const;
  /// The device address of what the host finds here; null where that is no device's memory.
  void* device_address(const void* host) const;

  size_t bytes_in_use() const;
  /// Of the card, in segments as libtorch's: cudaMalloc, for which a card stops.
  size_t bytes_reserved() const;

 private:
  Memory();
  struct Ranges;
  Ranges* ranges_;  // never freed: tensors may outlive what is static
};

/// Memory of the host that copies may read and write while the host goes on.
class PinnedMemory final : public at::HostAllocator {
 public:
  static PinnedMemory& instance();

  bool is_pinned(const void* address) const;

  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, size_t bytes) const override;
  /// Copies of libtorch's are recorded where they are made.
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

  /// Blocks that no one has had before: cudaHostAlloc, for which a card stops.
  int64_t blocks_reserved() const;

 private:
  PinnedMemory();
  struct Blocks;
  Blocks* blocks_;  // never freed
};

}  // namespace strata::test::emulated_gpu
