#include "strata/runtime/devices.h"

#include <ATen/Context.h>
#include <sched.h>

#include <map>
#include <thread>

#include "core/gpu_absence.h"
#include "core/join.h"
#include "core/mutex.h"
#include "runtime/logical_cpus.h"
#include "runtime/why_no_gpu.h"
#include "strata/core/device_name.h"
#include "strata/core/error.h"

namespace strata {
namespace {

/// How many logical devices each physical one has been divided into. A property of the process, as
/// the hardware is.
struct Divisions {
  Mutex mutex;
  std::map<c10::Device, int, bool (*)(const c10::Device&, const c10::Device&)> counts
      STRATA_GUARDED_BY(mutex){[](const c10::Device& a, const c10::Device& b) {
        return std::pair(a.type(), a.index()) < std::pair(b.type(), b.index());
      }};
};

Divisions& divisions() {
  static Divisions instance;
  return instance;
}

std::string type_name(const c10::Device& device) { return device.is_cpu() ? "CPU" : "GPU"; }

int logical_count(const c10::Device& device) {
  Divisions& all = divisions();
  MutexLock lock(all.mutex);
  const auto found = all.counts.find(device);
  if (found != all.counts.end()) return found->second;
  return device.is_cpu() ? num_cores() : 1;
}

std::string names(const std::vector<LogicalDevice>& devices) {
  return join(devices, [](const LogicalDevice& device) {
    return str_cat(device.type == "CPU" ? "cpu:" : "gpu:", device.index);
  });
}

}  // namespace

bool detail::is_cpu_divided() {
  Divisions& all = divisions();
  const MutexLock lock(all.mutex);
  return all.counts.contains(c10::Device(c10::kCPU));
}

std::string detail::why_no_gpu() {
  // Not hasCUDA, which is false in a CUDA build without a card, too.
  return strata::why_no_gpu(GpuSupport::of_process(at::detail::getCUDAHooks().hasCUDART()));
}

int num_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::vector<c10::Device> list_physical_devices(std::string_view type) {
  std::vector<c10::Device> devices;
  if (type.empty() || type == "CPU") devices.emplace_back(c10::kCPU);
  if ((type.empty() || type == "GPU") && at::globalContext().hasCUDA()) {
    const auto& hooks = at::detail::getCUDAHooks();
    for (int i = 0; i < static_cast<int>(hooks.deviceCount()); ++i) {
      devices.emplace_back(c10::kCUDA, static_cast<c10::DeviceIndex>(i));
    }
  }
  return devices;
}

std::vector<LogicalDevice> list_logical_devices(std::string_view type) {
  std::vector<LogicalDevice> devices;
  int next_gpu = 0;
  for (const c10::Device& physical : list_physical_devices(type)) {
    for (int i = 0; i < logical_count(physical); ++i) {
      const int index = physical.is_cpu() ? i : next_gpu++;
      DeviceName name;
      name.job = "localhost";
      name.replica = 0;
      name.task = 0;
      name.type = type_name(physical);
      name.index = index;
      devices.push_back(
          {.name = name.to_string(), .type = *name.type, .index = index, .physical = physical});
    }
  }
  return devices;
}

void set_logical_devices(std::string_view physical, int count) {
  STRATA_CHECK(count >= 1, kInvalidArgument, "[devices] set_logical_devices: got ", count,
               " logical devices for '", physical, "'; expected at least 1");
  const DeviceName name = DeviceName::parse(physical);
  for (const c10::Device& device : list_physical_devices(name.type.value_or(""))) {
    const int index = device.is_cpu() ? 0 : device.index();
    if (name.index.value_or(0) != index) continue;
    Divisions& all = divisions();
    MutexLock lock(all.mutex);
    all.counts[device] = count;
    return;
  }
  detail::throw_error(
      ErrorCode::kInvalidArgument,
      str_cat("[devices] set_logical_devices: got '", physical, "'; this machine has 1 CPU and ",
              list_physical_devices("GPU").size(), " GPU(s); name 'cpu' or 'gpu:i'"));
}

LogicalDevice find_device(std::string_view text) {
  const DeviceName name = DeviceName::parse(text);
  STRATA_CHECK(name.type, kInvalidArgument, "[devices] find: got '", text,
               "'; expected a type, for example cpu:0 or gpu:0");
  DeviceName wanted = name;
  if (!wanted.index) wanted.index = 0;
  for (const LogicalDevice& device : list_logical_devices()) {
    if (wanted.matches(DeviceName::parse(device.name))) return device;
  }
  STRATA_CHECK(*name.type != "GPU" || !list_physical_devices("GPU").empty(), kNotFound,
               "[devices] find: got '", text,
               "', and libtorch sees no GPU here: ", detail::why_no_gpu(), "; or use cpu:0");
  detail::throw_error(
      ErrorCode::kNotFound,
      str_cat("[devices] find: got '", text, "'; there are ", names(list_logical_devices()),
              "; for more on one physical device call set_logical_devices(\"",
              *name.type == "GPU" ? "gpu:0" : "cpu", "\", n) first"));
}

}  // namespace strata
