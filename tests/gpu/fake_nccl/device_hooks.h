#pragma once

#include <cstddef>

/// How emulated GPUs tell the fake NCCL about their streams and memory. They define, and the executable exports,
///
///     extern "C" const strata::test::fake_nccl::DeviceHooks* strata_emulated_device_hooks();
///
/// which the library finds by dlsym(RTLD_DEFAULT, ...). Without it streams are queues known by their pointers, and addresses
/// are the host's.
namespace strata::test::fake_nccl {

inline constexpr const char* kDeviceHooksSymbol = "strata_emulated_device_hooks";

/// Of a device's addresses.
struct Range {
  const void* begin;
  size_t bytes;
};

/// All functions are called from several threads.
struct DeviceHooks {
  size_t size;  ///< sizeof(DeviceHooks)

  /// The calling thread's device. NCCL takes it for a new communicator's.
  int (*current_device)();

  /// Where the host finds what a device address names.
  void* (*host_address)(const void* device);

  /// Puts an operation on a stream (a cudaStream_t), on the thread that calls NCCL. A group is one operation on each of its streams.
  /// @return A token, which wait_ready, cancel and complete take; complete ends it.
  void* (*enqueue)(void* stream, const char* name, const Range* reads, size_t n_reads,
                   const Range* writes, size_t n_writes);

  /// Blocks a thread of the library until all in front of the operation on its stream is done.
  /// @return 1; 0 if cancel ended the wait.
  int (*wait_ready)(void* token);

  /// Ends wait_ready, now or when it is called.
  void (*cancel)(void* token);

  /// The operation has ended; the stream moves on. It comes once for each token, with `failed` also where the operation's
  /// turn has not come yet.
  void (*complete)(void* token, int failed);
};

using DeviceHooksFunction = const DeviceHooks* (*)();

}  // namespace strata::test::fake_nccl
