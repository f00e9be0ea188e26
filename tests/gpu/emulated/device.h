#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>

/// GPUs of host memory, for machines that have none: libtorch sees CUDA devices, on which every
/// operator runs as the CPU's does. What depends on a device being no CPU is there: memory that the
/// host cannot touch, tensors that must lie on one device, a current device and current streams a
/// thread, streams and events whose order is checked (order.h), pinned memory, autograd's threads,
/// generators with seed and offset. What is not: cuDNN, and a GPU's speed; so work is counted
/// (`counts`), and may be given modelled times.
///
/// Linked into a test executable, that has GPUs: `gpu:0` and `gpu:1`, or as many as
/// STRATA_EMULATED_GPUS says (8 at most). STRATA_EMULATED_GPU_WAITS=1 prints where the host waits,
/// and with STRATA_EMULATED_GPU_DROPOUT=cpu dropout has the masks of replicas on CPUs. Not beside
/// libtorch's own CUDA library.
namespace strata::test::emulated_gpu {

inline constexpr c10::DeviceIndex kMostDevices = 8;

c10::DeviceIndex num_devices();

/// The calling thread's.
/// @{
c10::DeviceIndex current_device();
c10::Stream current_stream(c10::DeviceIndex device);
/// @}

/// What the devices have done, all together.
struct Counts {
  int64_t launches = 0;  ///< Operators that ran on a device: on a GPU, a kernel or more each.
  /// Times that the host waited for a stream, an event or a device: values that it read, copies
  /// that it did not ask to be asynchronous, or from memory that is not pinned.
  int64_t host_waits = 0;
  int64_t synchronous_copies = 0;  ///< Of these: copies between the host and a device.
  int64_t stalls = 0;  ///< Of these: for the last that a stream had to do, so that it ran dry.
};
Counts counts();

/// How much work a stream had behind what the host waited for: the least since the last call.
int64_t take_least_work_behind();

/// A CPU generator for one call's draws: a pure function of `generator`'s seed and offset, which
/// moves on.
at::Generator draws_of(at::Generator generator);

/// Where the device's default draws come from.
const at::Generator& default_generator(c10::DeviceIndex device);

namespace detail {
void count_launch();
void count_host_wait(int64_t work_behind = 0);
void count_synchronous_copy();
}  // namespace detail

}  // namespace strata::test::emulated_gpu
