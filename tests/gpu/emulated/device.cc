#include "gpu/emulated/device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/tensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <mutex>

#include "gpu/emulated/memory.h"

namespace strata::test::emulated_gpu {
namespace {

thread_local c10::DeviceIndex this_threads_device = 0;

std::atomic<int64_t> launches{0};
std::atomic<int64_t> host_waits{0};

/// Seed and offset, as a Philox generator has them.
class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex device)
      : c10::GeneratorImpl(c10::Device(c10::kCUDA, device),
                           c10::DispatchKeySet(c10::DispatchKey::CUDA)) {}

  void set_current_seed(uint64_t seed) override {
    seed_ = seed;
    offset_ = 0;
  }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return seed_;
  }
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  void set_state(const c10::TensorImpl& state) override {
    const auto* words = static_cast<const uint64_t*>(state.data());
    seed_ = words[0];
    offset_ = words[1];
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return at::tensor({static_cast<int64_t>(seed_), static_cast<int64_t>(offset_)}, at::kLong)
        .view(at::kByte)
        .getIntrusivePtr();
  }

 private:
  Generator* clone_impl() const override {
    auto* copy = new Generator(device().index());
    copy->seed_ = seed_;
    copy->offset_ = offset_;
    return copy;
  }

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

struct DeviceGuardImpl final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {c10::kCUDA, this_threads_device}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.is_cuda() && device.index() < kDevices,
                "CUDA error: invalid device ordinal");
    if (device.has_index()) this_threads_device = device.index();
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) this_threads_device = device.index();
  }
  c10::Stream getStream(c10::Device device) const override {
    if (!device.has_index()) device = getDevice();
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getStream(device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return getStream(stream.device());
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  // There is one stream a device, on which everything is done at once.
  void record(void** event, const c10::Stream&, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    static char done;
    *event = &done;
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}
};

const DeviceGuardImpl guard;
const c10::impl::DeviceGuardImplRegistrar guard_registrar(c10::kCUDA, &guard);

const bool memory_is_set = [] {
  c10::SetAllocator(c10::kCUDA, &Memory::instance());
  return true;
}();

}  // namespace

c10::DeviceIndex current_device() { return this_threads_device; }

Counts counts() { return {launches.load(), host_waits.load()}; }

at::Generator draws_of(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  const uint64_t seed = generator.current_seed();
  const uint64_t offset = generator.get_offset();
  generator.get<Generator>()->set_offset(offset + 4);
  uint64_t key = seed + (offset + 1) * 0x9e3779b97f4a7c15;
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
  return at::make_generator<at::CPUGeneratorImpl>(key ^ (key >> 31));
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  static auto* generators =
      new std::array<at::Generator, kDevices>{at::make_generator<Generator>(c10::DeviceIndex{0}),
                                              at::make_generator<Generator>(c10::DeviceIndex{1})};
  return generators->at(static_cast<size_t>(device < 0 ? current_device() : device));
}

namespace detail {
void count_launch() { launches.fetch_add(1, std::memory_order_relaxed); }
void count_host_wait() { host_waits.fetch_add(1, std::memory_order_relaxed); }
}  // namespace detail

}  // namespace strata::test::emulated_gpu

namespace at {

/// What libtorch asks of its CUDA library; the registry wants it here.
struct EmulatedCudaHooks final : CUDAHooksInterface {
  explicit EmulatedCudaHooks(CUDAHooksArgs) {}

  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return strata::test::emulated_gpu::kDevices; }
  int getNumGPUs() const override { return strata::test::emulated_gpu::kDevices; }
  DeviceIndex current_device() const override {
    return strata::test::emulated_gpu::current_device();
  }
  DeviceIndex getCurrentDevice() const override { return current_device(); }
  const Generator& getDefaultGenerator(DeviceIndex device) const override {
    return strata::test::emulated_gpu::default_generator(device);
  }
  Generator getNewGenerator(DeviceIndex device) const override {
    return getDefaultGenerator(device).clone();
  }
  Device getDeviceFromPtr(void*) const override { return {kCUDA, 0}; }
  void deviceSynchronize(DeviceIndex) const override {}
};

C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, EmulatedCudaHooks)

}  // namespace at
