#include "gpu/emulated/memory.h"

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <mutex>

#include "gpu/emulated/device.h"
#include "strata/core/error.h"

namespace strata::test::emulated_gpu {
namespace {

constexpr size_t kWindow = size_t{8} << 30;  // address space, not memory
constexpr size_t kGrain = 512;               // as CUDA aligns

char* reserve(int protection) {
  void* window =
      mmap(nullptr, kWindow, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  STRATA_CHECK(window != MAP_FAILED, kResourceExhausted, "[emulated_gpu] mmap of ", kWindow,
               " bytes: ", std::strerror(errno));
  return static_cast<char*>(window);
}

}  // namespace

struct Memory::Ranges {
  std::mutex mutex;
  char* device = reserve(PROT_NONE);
  char* host = reserve(PROT_READ | PROT_WRITE);
  std::map<size_t, size_t> free = {{0, kWindow}};  // offset to length
  std::map<size_t, size_t> used;
  size_t bytes_in_use = 0;
};

Memory::Memory() : ranges_(new Ranges) {}

Memory& Memory::instance() {
  static auto* memory = new Memory();
  return *memory;
}

c10::DataPtr Memory::allocate(size_t bytes) {
  const c10::Device device(c10::kCUDA, current_device());
  if (bytes == 0) return {nullptr, device};
  const size_t length = (bytes + kGrain - 1) / kGrain * kGrain;
  size_t offset = 0;
  {
    const std::lock_guard lock(ranges_->mutex);
    auto range = ranges_->free.begin();
    while (range != ranges_->free.end() && range->second < length) ++range;
    STRATA_CHECK(range != ranges_->free.end(), kResourceExhausted,
                 "[emulated_gpu] out of memory: got ", bytes, " bytes");
    offset = range->first;
    const size_t rest = range->second - length;
    ranges_->free.erase(range);
    if (rest > 0) ranges_->free[offset + length] = rest;
    ranges_->used[offset] = length;
    ranges_->bytes_in_use += length;
  }
  std::memset(ranges_->host + offset, 0xff, length);
  void* address = ranges_->device + offset;
  return {address, address, raw_deleter(), device};
}

c10::DeleterFnPtr Memory::raw_deleter() const {
  return [](void* address) {
    if (address == nullptr) return;
    Ranges& ranges = *instance().ranges_;
    const std::lock_guard lock(ranges.mutex);
    auto used = ranges.used.find(static_cast<size_t>(static_cast<char*>(address) - ranges.device));
    auto [offset, length] = *used;
    ranges.used.erase(used);
    ranges.bytes_in_use -= length;
    // Neighbours become one range again.
    auto after = ranges.free.upper_bound(offset);
    if (after != ranges.free.end() && offset + length == after->first) {
      length += after->second;
      after = ranges.free.erase(after);
    }
    if (after != ranges.free.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == offset) {
        before->second += length;
        return;
      }
    }
    ranges.free[offset] = length;
  };
}

void Memory::copy_data(void* to, const void* from, size_t bytes) const {
  std::memmove(host_address(to), host_address(from), bytes);
}

void* Memory::host_address(const void* device) const {
  if (device == nullptr) return nullptr;
  return ranges_->host + (static_cast<const char*>(device) - ranges_->device);
}

void* Memory::device_address(const void* host) const {
  const auto* byte = static_cast<const char*>(host);
  if (byte < ranges_->host || byte >= ranges_->host + kWindow) return nullptr;
  return ranges_->device + (byte - ranges_->host);
}

size_t Memory::bytes_in_use() const {
  const std::lock_guard lock(ranges_->mutex);
  return ranges_->bytes_in_use;
}

}  // namespace strata::test::emulated_gpu
