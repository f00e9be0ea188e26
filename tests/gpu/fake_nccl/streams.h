#pragma once

#include "gpu/fake_nccl/device_hooks.h"

namespace strata::test::fake_nccl {

/// The emulated GPUs' hooks; without them, queues known by their pointers in host memory.
const DeviceHooks& device_hooks();

/// Waits for a queue of the second kind: fake_nccl_stream_synchronize.
int synchronize_plain_stream(void* stream, int timeout_ms);

}  // namespace strata::test::fake_nccl
