#include "strata/tensor/cpu_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "core/mutex.h"
#include "tensor/block_cache.h"

#if defined(__SANITIZE_ADDRESS__)
#define STRATA_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STRATA_ADDRESS_SANITIZER 1
#endif
#endif

namespace strata::tensor {
namespace {

#ifdef STRATA_ADDRESS_SANITIZER
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

constexpr uint8_t kPriority = 10;

void free_block(void* block) {
  if (block == nullptr) return;
  c10::profiledCPUMemoryReporter().Delete(block);
  // libtorch's oneDNN code frees through whatever allocator is set by then, so blocks of the
  // default one come here too.
  if (!BlockCache::instance().deallocate(block)) c10::free_cpu(block);
}

class CachingCpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &free_block, cpu};
    void* block = BlockCache::instance().allocate(bytes);
    if (block == nullptr) {
      c10::profiledCPUMemoryReporter().OutOfMemory(bytes);
      TORCH_CHECK(false, "[cpu_allocator] allocate: not enough memory for a tensor of ", bytes,
                  " bytes, all caches already given back; use smaller batches or fewer replicas");
    }
    c10::profiledCPUMemoryReporter().New(block, bytes);
    return {block, block, &free_block, cpu};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }

  void copy_data(void* destination, const void* source, size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }
};

/// Memory that this process may use: the machine's, or the control group's limit.
int64_t memory_bytes() {
  int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    if (int64_t limit = 0; file >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

/// The address sanitizer sees into no block of strata's, so there the cache is used only when asked
/// for.
bool caching_wanted() {
  const char* set = std::getenv("STRATA_CPU_ALLOCATOR");
  const std::string_view choice = set ? set : "";
  return kAddressSanitizer ? choice == "caching" : choice != "system";
}

CachingCpuAllocator& caching_allocator() {
  static auto* allocator = new CachingCpuAllocator();
  return *allocator;
}

}  // namespace

bool install_cpu_allocator(const CpuAllocatorOptions& options) {
  if (!caching_wanted()) return false;
  static Mutex one_at_a_time;  // strategies may be made by several threads
  const MutexLock lock(one_at_a_time);
  BlockCache& cache = BlockCache::instance();
  if (!cache.init()) return false;
  if (options.max_cached_bytes > 0) {
    cache.set_max_cached_bytes(options.max_cached_bytes);
  } else if (cache.max_cached_bytes() == 0) {
    cache.set_max_cached_bytes(memory_bytes() / 4);
  }
  c10::Allocator* caching = &caching_allocator();
  if (c10::GetCPUAllocator() != caching) c10::SetCPUAllocator(caching, kPriority);
  return c10::GetCPUAllocator() == caching;
}

CpuAllocatorStats cpu_allocator_stats() { return BlockCache::instance().stats(); }

int64_t trim_cpu_allocator() { return BlockCache::instance().trim(); }

}  // namespace strata::tensor
