#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <cstdint>

/// GPUs of host memory, for machines that have none: libtorch sees CUDA devices, on which every
/// operator runs as the CPU's does. What depends on a device being no CPU is there: memory that the
/// host cannot touch, tensors that must lie on one device, a current device a thread, autograd's
/// threads, generators with seed and offset. What is not: streams (all is done when a call comes
/// back), cuDNN and NCCL, and a GPU's speed; so work is counted instead (`counts`).
///
/// Linked into a test executable, that has GPUs: `gpu:0` and `gpu:1`. Not beside libtorch's own
/// CUDA library.
namespace strata::test::emulated_gpu {

inline constexpr c10::DeviceIndex kDevices = 2;

/// The calling thread's.
c10::DeviceIndex current_device();

/// What the devices have done, all together.
struct Counts {
  int64_t launches = 0;  ///< Operators that ran on a device: on a GPU, a kernel or more each.
  int64_t host_waits =
      0;  ///< Values that the host read from a device: it waits for all work there.
};
Counts counts();

/// A CPU generator for one call's draws: a pure function of `generator`'s seed and offset, which
/// moves on.
at::Generator draws_of(at::Generator generator);

/// Where the device's default draws come from.
const at::Generator& default_generator(c10::DeviceIndex device);

namespace detail {
void count_launch();
void count_host_wait();
}  // namespace detail

}  // namespace strata::test::emulated_gpu
