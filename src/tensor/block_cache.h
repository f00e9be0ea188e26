#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/mutex.h"
#include "strata/tensor/cpu_allocator.h"

namespace strata::tensor {

/// Four size classes a power of two: 64, 128, 192, 256, 320, 384, 448, 512, 640, ...
inline constexpr int kNumClasses = 160;

constexpr int size_class(size_t bytes) {
  if (bytes <= 256) return bytes == 0 ? 0 : static_cast<int>((bytes - 1) / 64);
  const int log = 63 - __builtin_clzll(bytes - 1);
  const int quarter = static_cast<int>(((bytes - 1) >> (log - 2)) & 3);
  return 4 + (log - 8) * 4 + quarter;
}

constexpr size_t class_bytes(int index) {
  if (index < 4) return static_cast<size_t>(index + 1) * 64;
  const int log = 8 + (index - 4) / 4;
  const size_t quarters = static_cast<size_t>((index - 4) % 4) + 5;
  return quarters << (log - 2);
}

/// The memory behind the CPU allocator: process-wide, never destroyed, knows nothing of libtorch.
///
/// Blocks below 2 MiB are cut from chunks of 8 MiB and stay cut for ever; blocks from 2 MiB on are
/// mappings of their own. Which class a block has is found from its address: a map with a byte for
/// each 2 MiB of address space, and in a chunk a byte for each page. So a block has no header, a
/// free does not touch it, and a pointer that is not strata's is recognised.
class BlockCache {
 public:
  static BlockCache& instance();

  /// False if the address map could not be reserved. Call before the first allocation.
  bool init();
  void set_max_cached_bytes(int64_t bytes) { max_cached_.store(bytes, std::memory_order_relaxed); }

  int64_t max_cached_bytes() const { return max_cached_.load(std::memory_order_relaxed); }

  /// nullptr when the kernel has no memory left, after everything cached was given back.
  void* allocate(size_t bytes);
  /// False: not a block of strata's.
  bool deallocate(void* block);

  CpuAllocatorStats stats();
  int64_t trim();

 private:
  struct Bin {
    void** slots = nullptr;
    uint32_t count = 0;
    uint32_t capacity = 0;
  };
  /// One thread's free blocks; only that thread touches the bins.
  struct Magazine {
    std::array<Bin, kNumClasses> bins;
    std::atomic<int64_t> in_use{0};
    std::atomic<int64_t> allocations{0};
    uint64_t trim_epoch = 0;
  };
  struct Pool {
    std::vector<void*> blocks;
    uint64_t last_use = 0;
  };
  /// A lock for every 32nd class: neighbours, which a step uses together, never share one. Not one
  /// for each, because fork() takes them all and the thread sanitizer follows 63 at most.
  struct alignas(64) PoolLock {
    Mutex mutex;
  };
  struct ThreadExit;

  BlockCache() = default;

  static Magazine* thread_magazine();
  Magazine* make_magazine();
  void retire(Magazine* magazine);
  static Bin& ready_bin(Magazine* magazine, int index);

  void* allocate_slow(int index, Magazine* magazine);
  void deallocate_slow(void* block, int index, Magazine* magazine);
  int class_of(void* block) const;

  void* cut_span(int index, Magazine* magazine);
  void* take_from_chunk(size_t bytes, int index);
  bool new_chunk() STRATA_REQUIRES(chunk_mutex_);
  void* map_large(int index);
  void unmap_large(void* block, int index);

  Mutex& pool_mutex(int index) { return pool_locks_[index % pool_locks_.size()].mutex; }
  void give_to_pool(int index, void** blocks, size_t count);
  void drop_large_bins(Magazine* magazine);
  void evict_to_budget(Magazine* magazine);
  int64_t drop_pools();

  // For fork(). Not checked: clang does not follow the mutexes of an array.
  void lock_all() STRATA_NO_THREAD_SAFETY_ANALYSIS;
  void unlock_all() STRATA_NO_THREAD_SAFETY_ANALYSIS;

  static thread_local Magazine* thread_magazine_;
  static thread_local bool thread_is_over_;

  std::atomic<uint8_t>* units_ = nullptr;  // 0 not strata's, kChunkUnit, else class + 1
  std::array<Pool, kNumClasses> pools_;    // each guarded by its pool_mutex
  std::array<PoolLock, 32> pool_locks_;

  Mutex chunk_mutex_;
  uintptr_t chunk_next_ STRATA_GUARDED_BY(chunk_mutex_) = 0;
  uintptr_t chunk_end_ STRATA_GUARDED_BY(chunk_mutex_) = 0;

  Mutex registry_mutex_;
  std::vector<Magazine*> magazines_ STRATA_GUARDED_BY(registry_mutex_);
  int64_t retired_allocations_ STRATA_GUARDED_BY(registry_mutex_) = 0;
  int64_t retired_in_use_ STRATA_GUARDED_BY(registry_mutex_) = 0;

  std::atomic<int64_t> max_cached_{0};
  std::atomic<int64_t> cached_large_{0};
  std::atomic<int64_t> mapped_{0};
  std::atomic<int64_t> outside_in_use_{0};  // by threads whose magazine is destroyed
  std::atomic<int64_t> system_allocations_{0};
  std::atomic<uint64_t> trim_epoch_{0};
  std::atomic<uint64_t> clock_{0};
};

}  // namespace strata::tensor
