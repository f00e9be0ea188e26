#include "core/cuda_driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "strata/core/str_cat.h"

namespace strata {
namespace {

constexpr int kSuccess = 0;

/// The functions of cuda.h that are called here; a CUdevice is an int, a CUresult an enum.
struct Functions {
  int (*init)(unsigned flags);
  int (*get_error_string)(int error, const char** text);
  int (*driver_get_version)(int* version);
  int (*device_get_count)(int* count);
  int (*device_get)(int* device, int ordinal);
  int (*device_get_name)(char* name, int size, int device);
  int (*device_get_uuid)(std::array<unsigned char, 16>* uuid, int device);
  int (*device_get_pci_bus_id)(char* id, int size, int device);
  int (*device_total_mem)(size_t* bytes, int device);
  int (*device_get_attribute)(int* value, int attribute, int device);
};

template <typename Function>
bool look_up(void* file, const char* name, Function& function, std::string& problem) {
  function = reinterpret_cast<Function>(::dlsym(file, name));
  if (function == nullptr) problem = str_cat("libcuda has no ", name);
  return function != nullptr;
}

bool look_up_all(void* file, Functions& cuda, std::string& problem) {
  return look_up(file, "cuInit", cuda.init, problem) &&
         look_up(file, "cuGetErrorString", cuda.get_error_string, problem) &&
         look_up(file, "cuDriverGetVersion", cuda.driver_get_version, problem) &&
         look_up(file, "cuDeviceGetCount", cuda.device_get_count, problem) &&
         look_up(file, "cuDeviceGet", cuda.device_get, problem) &&
         look_up(file, "cuDeviceGetName", cuda.device_get_name, problem) &&
         look_up(file, "cuDeviceGetUuid_v2", cuda.device_get_uuid, problem) &&
         look_up(file, "cuDeviceGetPCIBusId", cuda.device_get_pci_bus_id, problem) &&
         look_up(file, "cuDeviceTotalMem_v2", cuda.device_total_mem, problem) &&
         look_up(file, "cuDeviceGetAttribute", cuda.device_get_attribute, problem);
}

// "cuInit: no CUDA-capable device is detected (error 100)"
std::string failure(const Functions& cuda, const char* call, int error) {
  const char* text = nullptr;
  if (cuda.get_error_string(error, &text) != kSuccess || text == nullptr) text = "unknown";
  return str_cat(call, ": ", text, " (error ", error, ")");
}

std::string text_of(const std::array<unsigned char, 16>& uuid) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "GPU-";
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[uuid[i] >> 4];
    text += kDigits[uuid[i] & 0xF];
  }
  return text;
}

CudaDriver::Gpu describe(const Functions& cuda, int device) {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...
  CudaDriver::Gpu gpu;
  std::array<char, 256> text{};
  if (cuda.device_get_name(text.data(), text.size(), device) == kSuccess) gpu.name = text.data();
  text = {};
  if (cuda.device_get_pci_bus_id(text.data(), text.size(), device) == kSuccess) {
    gpu.address = text.data();
    std::ranges::transform(gpu.address, gpu.address.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  }
  std::array<unsigned char, 16> uuid{};
  if (cuda.device_get_uuid(&uuid, device) == kSuccess) gpu.uuid = text_of(uuid);
  size_t bytes = 0;
  if (cuda.device_total_mem(&bytes, device) == kSuccess) gpu.memory = static_cast<int64_t>(bytes);
  cuda.device_get_attribute(&gpu.major, kMajor, device);
  cuda.device_get_attribute(&gpu.minor, kMinor, device);
  return gpu;
}

}  // namespace

const CudaDriver& CudaDriver::of_process() {
  static const CudaDriver once = ask("libcuda.so.1");
  return once;
}

CudaDriver CudaDriver::ask(const std::string& library) {
  CudaDriver driver;
  void* const file = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays open, as CUDA's own
  if (file == nullptr) {
    driver.problem = ::dlerror();  // NOLINT(concurrency-mt-unsafe)
    return driver;
  }
  driver.found = true;
  Functions cuda = {};
  if (!look_up_all(file, cuda, driver.problem)) return driver;
  cuda.driver_get_version(&driver.cuda_version);
  int count = 0;
  if (const int error = cuda.init(0); error != kSuccess) {
    driver.problem = failure(cuda, "cuInit", error);
  } else if (const int failed = cuda.device_get_count(&count); failed != kSuccess) {
    driver.problem = failure(cuda, "cuDeviceGetCount", failed);
  } else if (count == 0) {
    driver.problem = "cuDeviceGetCount: 0 devices";
  }
  for (int i = 0; i < count; ++i) {
    int device = 0;
    if (cuda.device_get(&device, i) == kSuccess) driver.gpus.push_back(describe(cuda, device));
  }
  return driver;
}

}  // namespace strata
