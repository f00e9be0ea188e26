#pragma once

#include <c10/core/Device.h>

#include <string>
#include <string_view>
#include <vector>

#include "strata/core/export.h"

namespace strata {

/// A device as programs name it, on the hardware that serves it. Several logical devices may share
/// one physical device: `set_logical_devices("cpu", 8)` allows eight replicas on two cores.
struct LogicalDevice {
  std::string name;      ///< "/job:localhost/replica:0/task:0/device:CPU:1"
  std::string type;      ///< "CPU" or "GPU"
  int index = 0;         ///< Among the logical devices of its type.
  c10::Device physical;  ///< libtorch's name: cpu, cuda:0.
};

/// Number of cores that this process may use (its affinity mask), at least 1.
STRATA_API int num_cores();

/// Physical devices of `type` ("CPU", "GPU"; empty: all), as libtorch names them. One CPU, n GPUs.
STRATA_API std::vector<c10::Device> list_physical_devices(std::string_view type = {});

/// Logical devices of `type` (empty: all). By default the CPU has one for each core, and each GPU
/// has one.
STRATA_API std::vector<LogicalDevice> list_logical_devices(std::string_view type = {});

/// Divides a physical device ("cpu", "gpu:0") into `count` logical ones. `count` may exceed the
/// cores. Strategies that exist keep their devices.
/// @throws Error  kInvalidArgument: count < 1 or no such device.
/// Source: tf.config.set_logical_device_configuration.
STRATA_API void set_logical_devices(std::string_view physical, int count);

/// Finds the logical device of `name` ("cpu:1", "gpu:0", "/device:CPU:0", a full name).
/// @throws Error  kInvalidArgument: not a device name. kNotFound: no such device; lists the known
///   ones.
STRATA_API LogicalDevice find_device(std::string_view name);

}  // namespace strata
