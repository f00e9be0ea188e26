#include "gpu/emulated/device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/tensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "gpu/emulated/memory.h"
#include "strata/core/error.h"

namespace strata::test::emulated_gpu {
namespace {

constexpr c10::StreamId kPoolStreams = 32;  // as libtorch has a device

thread_local c10::DeviceIndex this_threads_device = 0;
thread_local std::array<c10::StreamId, kMostDevices> this_threads_streams = {};

std::atomic<int64_t> launches{0};
std::atomic<int64_t> host_waits{0};
std::atomic<int64_t> synchronous_copies{0};
std::atomic<int64_t> stalls{0};
constexpr int64_t kNoWait = std::numeric_limits<int64_t>::max();
std::atomic<int64_t> least_work_behind{kNoWait};
std::atomic<c10::StreamId> next_pool_stream{0};
std::atomic<c10::StreamId> next_own_stream{kPoolStreams};

c10::Stream stream_of(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kCUDA, device), id);
}

/// What a `cudaStream_t` points to here.
void* native_handle(const c10::Stream& stream) {
  static auto* handles = new std::map<std::pair<c10::DeviceIndex, c10::StreamId>, c10::Stream>();
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  return &handles->try_emplace({stream.device_index(), stream.id()}, stream).first->second;
}

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
    TORCH_CHECK(device.is_cuda() && device.index() < num_devices(),
                "CUDA error: invalid device ordinal");
    if (device.has_index()) this_threads_device = device.index();
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) this_threads_device = device.index();
  }
  c10::Stream getStream(c10::Device device) const override {
    return current_stream(device.has_index() ? device.index() : this_threads_device);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return stream_of(device.has_index() ? device.index() : this_threads_device, 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    const c10::StreamId id = next_pool_stream.fetch_add(1) % kPoolStreams + 1;
    return stream_of(device.has_index() ? device.index() : this_threads_device, id);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return stream_of(device.has_index() ? device.index() : this_threads_device,
                     next_own_stream.fetch_add(1) + 1);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = current_stream(stream.device_index());
    this_threads_streams.at(static_cast<size_t>(stream.device_index())) = stream.id();
    return before;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return native_handle(stream);
  }
  c10::DeviceIndex deviceCount() const noexcept override { return num_devices(); }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (*event == nullptr) *event = new Event();
    *static_cast<Event*>(*event) = record_event(stream);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) wait_event(stream, *static_cast<Event*>(event));
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || query(*static_cast<Event*>(event));
  }
  bool queryStream(const c10::Stream& stream) const override { return query(record_event(stream)); }
  void synchronizeStream(const c10::Stream& stream) const override {
    detail::count_host_wait();
    host_waits_for(stream);
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    const Event& point = *static_cast<Event*>(event);
    detail::count_host_wait(work_behind(point));
    host_waits_for(point);
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    detail::count_host_wait();
    host_waits_for_all(device);
  }
  void recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const override {
    if (memory.get() != nullptr) Memory::instance().record_stream(memory.get(), stream);
  }
};

const DeviceGuardImpl guard;
const c10::impl::DeviceGuardImplRegistrar guard_registrar(c10::kCUDA, &guard);

const bool memory_is_set = [] {
  c10::SetAllocator(c10::kCUDA, &Memory::instance());
  at::setHostAllocator(c10::kCUDA, &PinnedMemory::instance());
  return true;
}();

}  // namespace

c10::DeviceIndex num_devices() {
  static const auto number = [] {
    const char* text = std::getenv("STRATA_EMULATED_GPUS");
    const int wanted = text == nullptr ? 2 : std::atoi(text);
    STRATA_CHECK(wanted >= 0 && wanted <= kMostDevices, kInvalidArgument,
                 "[emulated_gpu] STRATA_EMULATED_GPUS: got '", text, "'; expected 0 to ",
                 static_cast<int>(kMostDevices));
    return static_cast<c10::DeviceIndex>(wanted);
  }();
  return number;
}

c10::DeviceIndex current_device() { return this_threads_device; }

c10::Stream current_stream(c10::DeviceIndex device) {
  return stream_of(device, this_threads_streams.at(static_cast<size_t>(device)));
}

Counts counts() {
  return {launches.load(), host_waits.load(), synchronous_copies.load(), stalls.load()};
}

int64_t take_least_work_behind() { return least_work_behind.exchange(kNoWait); }

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
  static auto* generators = [] {
    auto* all = new std::vector<at::Generator>();
    for (c10::DeviceIndex i = 0; i < num_devices(); ++i) {
      all->push_back(at::make_generator<Generator>(i));
    }
    return all;
  }();
  return generators->at(static_cast<size_t>(device < 0 ? current_device() : device));
}

namespace detail {
void count_launch() { launches.fetch_add(1, std::memory_order_relaxed); }
void count_host_wait(int64_t work_behind) {
  static const bool tell = std::getenv("STRATA_EMULATED_GPU_WAITS") != nullptr;
  if (tell) std::fprintf(stderr, "the host waits%s\n", calling_place().c_str());
  host_waits.fetch_add(1, std::memory_order_relaxed);
  if (work_behind == 0) stalls.fetch_add(1, std::memory_order_relaxed);
  int64_t least = least_work_behind.load();
  while (work_behind < least && !least_work_behind.compare_exchange_weak(least, work_behind)) {
  }
}
void count_synchronous_copy() {
  count_host_wait();
  synchronous_copies.fetch_add(1, std::memory_order_relaxed);
}
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
  DeviceIndex deviceCount() const override { return strata::test::emulated_gpu::num_devices(); }
  int getNumGPUs() const override { return strata::test::emulated_gpu::num_devices(); }
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
  void deviceSynchronize(DeviceIndex device) const override {
    strata::test::emulated_gpu::detail::count_host_wait();
    strata::test::emulated_gpu::host_waits_for_all(device);
  }
  bool isPinnedPtr(const void* address) const override {
    return strata::test::emulated_gpu::PinnedMemory::instance().is_pinned(address);
  }
  Allocator* getPinnedMemoryAllocator() const override {
    return &strata::test::emulated_gpu::PinnedMemory::instance();
  }
};

C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, EmulatedCudaHooks)

}  // namespace at
