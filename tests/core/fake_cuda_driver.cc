// A libcuda.so.1 for tests: two GPUs, or, where FAKE_CUDA_ERROR is set, a cuInit that fails with that number.
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int cuInit(unsigned) {
  const char* const error = std::getenv("FAKE_CUDA_ERROR");
  return error != nullptr ? std::atoi(error) : 0;
}
EXPORTED int cuGetErrorString(int error, const char** text) {
  if (error != 100) return 1;
  *text = "no CUDA-capable device is detected";
  return 0;
}
EXPORTED int cuDriverGetVersion(int* version) {
  *version = 13020;
  return 0;
}
EXPORTED int cuDeviceGetCount(int* count) {
  *count = 2;
  return 0;
}
EXPORTED int cuDeviceGet(int* device, int ordinal) {
  *device = 7 + ordinal;
  return 0;
}
EXPORTED int cuDeviceGetName(char* name, int size, int device) {
  std::strncpy(name, device == 7 ? "NVIDIA One" : "NVIDIA Two", static_cast<size_t>(size));
  return 0;
}
EXPORTED int cuDeviceGetUuid_v2(std::array<unsigned char, 16>* uuid, int device) {
  for (size_t i = 0; i < uuid->size(); ++i) (*uuid)[i] = static_cast<unsigned char>(i * 17);
  (*uuid)[15] = static_cast<unsigned char>(device);
  return 0;
}
EXPORTED int cuDeviceGetPCIBusId(char* id, int size, int device) {
  std::strncpy(id, device == 7 ? "0000:1A:00.0" : "0000:3B:00.0", static_cast<size_t>(size));
  return 0;
}
EXPORTED int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{80} << 30;
  return 0;
}
EXPORTED int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? 9 : 0;
  return 0;
}
