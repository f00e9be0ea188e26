#include "tensor/block_cache.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "tensor/huge_pages.h"

namespace strata::tensor {
namespace {

constexpr int kAddressBits = 48;
constexpr int kUnitBits = 21;
constexpr size_t kNumUnits = size_t{1} << (kAddressBits - kUnitBits);
constexpr uint8_t kChunkUnit = 255;

// A chunk begins with one byte for each of its pages: the class of the block that starts there.
constexpr size_t kChunkBytes = size_t{8} << 20;
constexpr size_t kChunkPages = kChunkBytes / kSmallPage;
constexpr size_t kChunkHeader = round_up(kChunkPages, kSmallPage);

// Classes below kSpanLimit are not whole pages: they are cut from spans of one class.
constexpr size_t kSpanBytes = size_t{64} << 10;
constexpr size_t kSpanLimit = size_t{16} << 10;
constexpr int kFirstLarge = size_class(kHugePage);
constexpr size_t kDropLimit = size_t{64} << 10;

static_assert(class_bytes(kFirstLarge) == kHugePage);
static_assert(class_bytes(size_class(257)) == 320 && class_bytes(size_class(512)) == 512);
static_assert(class_bytes(size_class(kSpanLimit + 1)) % kSmallPage == 0);
static_assert(size_class(size_t{1} << 46) < kNumClasses && kNumClasses < kChunkUnit);

/// Free blocks of a class that one thread keeps: enough for the tensors of a training step, few
/// enough that a thread which only frees does not starve the ones that allocate.
uint32_t bin_capacity(int index) {
  const size_t bytes = class_bytes(index);
  if (bytes <= (size_t{4} << 10)) return 128;
  if (bytes <= (size_t{64} << 10)) return 64;
  if (bytes <= (size_t{512} << 10)) return 16;
  if (bytes < kHugePage) return 8;
  return bytes <= (size_t{32} << 20) ? 4 : 2;
}

/// Only the owner writes, so no read-modify-write is needed; others read.
void add(std::atomic<int64_t>& counter, int64_t value) {
  counter.store(counter.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

}  // namespace

/// Its destructor runs when the thread ends and gives the magazine back.
struct BlockCache::ThreadExit {
  bool armed = false;
  ~ThreadExit() {
    if (!armed) return;
    Magazine* magazine = thread_magazine_;
    thread_magazine_ = nullptr;
    thread_is_over_ = true;  // later destructors of this thread may still free tensors
    if (magazine != nullptr) instance().retire(magazine);
  }
};

thread_local BlockCache::Magazine* BlockCache::thread_magazine_ = nullptr;
thread_local bool BlockCache::thread_is_over_ = false;

BlockCache& BlockCache::instance() {
  // Never destroyed: tensors in other people's static objects may be freed after this object's
  // destruction.
  static auto* cache = new BlockCache();
  return *cache;
}

bool BlockCache::init() {
  if (units_ != nullptr) return true;
  void* map = mmap(nullptr, kNumUnits, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return false;
  madvise(map, kNumUnits, MADV_NOHUGEPAGE);  // a handful of its pages is ever touched
  units_ = static_cast<std::atomic<uint8_t>*>(map);
  static_assert(sizeof(std::atomic<uint8_t>) == 1 && std::atomic<uint8_t>::is_always_lock_free);
  // A child of fork() has one thread: no lock may be held by another one at that moment.
  pthread_atfork([] { instance().lock_all(); }, [] { instance().unlock_all(); },
                 [] { instance().unlock_all(); });
  return true;
}

BlockCache::Magazine* BlockCache::make_magazine() {
  if (thread_is_over_) return nullptr;
  static thread_local ThreadExit exit;
  exit.armed = true;
  auto* magazine = new Magazine();
  magazine->trim_epoch = trim_epoch_.load(std::memory_order_relaxed);
  {
    MutexLock lock(registry_mutex_);
    magazines_.push_back(magazine);
  }
  thread_magazine_ = magazine;
  return magazine;
}

void BlockCache::retire(Magazine* magazine) {
  for (int index = 0; index < kNumClasses; ++index) {
    Bin& bin = magazine->bins[index];
    if (bin.count > 0) give_to_pool(index, bin.slots, bin.count);
    std::free(bin.slots);
  }
  {
    MutexLock lock(registry_mutex_);
    std::erase(magazines_, magazine);
    retired_allocations_ += magazine->allocations.load(std::memory_order_relaxed);
    retired_in_use_ += magazine->in_use.load(std::memory_order_relaxed);
  }
  delete magazine;
}

BlockCache::Bin& BlockCache::ready_bin(Magazine* magazine, int index) {
  Bin& bin = magazine->bins[index];
  if (bin.capacity == 0) {
    const uint32_t capacity = bin_capacity(index);
    bin.slots = static_cast<void**>(std::malloc(capacity * sizeof(void*)));
    if (bin.slots != nullptr) bin.capacity = capacity;
  }
  return bin;
}

int BlockCache::class_of(void* block) const {
  const auto address = reinterpret_cast<uintptr_t>(block);
  const size_t unit = address >> kUnitBits;
  if (unit >= kNumUnits) return -1;
  const uint8_t kind = units_[unit].load(std::memory_order_relaxed);
  if (kind != kChunkUnit) return kind - 1;
  const auto* page_class = reinterpret_cast<const uint8_t*>(address & ~(kChunkBytes - 1));
  return page_class[(address & (kChunkBytes - 1)) / kSmallPage];
}

void* BlockCache::allocate(size_t bytes) {
  const int index = size_class(bytes);
  if (index >= kNumClasses) return nullptr;
  Magazine* magazine = thread_magazine_;
  if (magazine == nullptr || magazine->bins[index].count == 0 || index >= kFirstLarge)
      [[unlikely]] {
    return allocate_slow(index, magazine);
  }
  Bin& bin = magazine->bins[index];
  add(magazine->in_use, static_cast<int64_t>(class_bytes(index)));
  add(magazine->allocations, 1);
  return bin.slots[--bin.count];
}

bool BlockCache::deallocate(void* block) {
  const int index = class_of(block);
  if (index < 0) return false;
  Magazine* magazine = thread_magazine_;
  if (magazine == nullptr || magazine->bins[index].count == magazine->bins[index].capacity ||
      index >= kFirstLarge) [[unlikely]] {
    deallocate_slow(block, index, magazine);
    return true;
  }
  Bin& bin = magazine->bins[index];
  bin.slots[bin.count++] = block;
  add(magazine->in_use, -static_cast<int64_t>(class_bytes(index)));
  return true;
}

void* BlockCache::allocate_slow(int index, Magazine* magazine) {
  if (magazine == nullptr) magazine = make_magazine();
  const auto bytes = static_cast<int64_t>(class_bytes(index));
  const bool large = index >= kFirstLarge;
  void* block = nullptr;
  if (magazine != nullptr) {
    if (large) drop_large_bins(magazine);
    Bin& bin = ready_bin(magazine, index);
    if (bin.count > 0) block = bin.slots[--bin.count];
  }
  if (block == nullptr) {
    Pool& pool = pools_[index];
    MutexLock lock(pool_mutex(index));
    if (!pool.blocks.empty()) {
      block = pool.blocks.back();
      pool.blocks.pop_back();
      if (large) pool.last_use = clock_.fetch_add(1, std::memory_order_relaxed);
      if (magazine != nullptr && class_bytes(index) <= kDropLimit) {
        Bin& bin = magazine->bins[index];
        while (bin.count < bin.capacity / 2 && !pool.blocks.empty()) {
          bin.slots[bin.count++] = pool.blocks.back();
          pool.blocks.pop_back();
        }
      }
    }
  }
  if (block != nullptr) {
    if (large) cached_large_.fetch_sub(bytes, std::memory_order_relaxed);
  } else {
    system_allocations_.fetch_add(1, std::memory_order_relaxed);
    const auto from_system = [&] { return large ? map_large(index) : cut_span(index, magazine); };
    block = from_system();
    if (block == nullptr && trim() > 0) block = from_system();
    if (block == nullptr) return nullptr;
  }
  if (magazine != nullptr) {
    add(magazine->in_use, bytes);
    add(magazine->allocations, 1);
  } else {
    outside_in_use_.fetch_add(bytes, std::memory_order_relaxed);
  }
  return block;
}

void BlockCache::deallocate_slow(void* block, int index, Magazine* magazine) {
  if (magazine == nullptr) magazine = make_magazine();
  const auto bytes = static_cast<int64_t>(class_bytes(index));
  const bool large = index >= kFirstLarge;
  if (magazine == nullptr) {
    outside_in_use_.fetch_sub(bytes, std::memory_order_relaxed);
    give_to_pool(index, &block, 1);
  } else {
    add(magazine->in_use, -bytes);
    Bin& bin = ready_bin(magazine, index);
    if (bin.count == bin.capacity && bin.count > 0) {
      // The lower half has rested longest; the upper half is still in this core's cache.
      const uint32_t flushed = (bin.count + 1) / 2;
      give_to_pool(index, bin.slots, flushed);
      std::copy(bin.slots + flushed, bin.slots + bin.count, bin.slots);
      bin.count -= flushed;
    }
    if (bin.count < bin.capacity) {
      bin.slots[bin.count++] = block;
    } else {
      give_to_pool(index, &block, 1);
    }
  }
  if (!large) return;
  const int64_t cached = cached_large_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (magazine != nullptr) drop_large_bins(magazine);
  if (cached > max_cached_.load(std::memory_order_relaxed)) evict_to_budget(magazine);
}

void BlockCache::give_to_pool(int index, void** blocks, size_t count) {
  Pool& pool = pools_[index];
  MutexLock lock(pool_mutex(index));
  pool.blocks.insert(pool.blocks.end(), blocks, blocks + count);
  if (index >= kFirstLarge) {
    pool.last_use = clock_.fetch_add(1, std::memory_order_relaxed);
  }
}

/// New memory of class `index`: one block is returned, a small class's further ones go to the bin
/// and the pool.
void* BlockCache::cut_span(int index, Magazine* magazine) {
  const size_t bytes = class_bytes(index);
  if (bytes >= kSpanLimit) return take_from_chunk(bytes, index);
  auto* span = static_cast<char*>(take_from_chunk(kSpanBytes, index));
  if (span == nullptr) return nullptr;
  std::array<void*, kSpanBytes / 64> blocks;
  size_t count = 0;
  // The last one ends up on top: handed out in address order.
  for (size_t at = kSpanBytes / bytes; at-- > 1;) blocks[count++] = span + at * bytes;
  size_t kept = 0;
  if (magazine != nullptr) {
    Bin& bin = magazine->bins[index];
    kept = std::min<size_t>(count, (bin.capacity - bin.count) / 2);
    std::copy(blocks.begin() + (count - kept), blocks.begin() + count, bin.slots + bin.count);
    bin.count += static_cast<uint32_t>(kept);
  }
  if (count > kept) give_to_pool(index, blocks.data(), count - kept);
  return span;
}

void* BlockCache::take_from_chunk(size_t bytes, int index) {
  MutexLock lock(chunk_mutex_);
  if (chunk_end_ - chunk_next_ < bytes && !new_chunk()) return nullptr;
  const uintptr_t start = chunk_next_;
  chunk_next_ += bytes;
  auto* page_class = reinterpret_cast<uint8_t*>(start & ~(kChunkBytes - 1));
  const size_t first = (start & (kChunkBytes - 1)) / kSmallPage;
  std::fill_n(page_class + first, bytes / kSmallPage, static_cast<uint8_t>(index));
  return reinterpret_cast<void*>(start);
}

bool BlockCache::new_chunk() {
  void* chunk = map_huge(kChunkBytes, kChunkBytes);
  if (chunk == nullptr) return false;
  mapped_.fetch_add(kChunkBytes, std::memory_order_relaxed);
  // What is left of the old chunk is too small for this block; it is cut into spans' worth of the
  // class that fits it best.
  const size_t left = chunk_end_ - chunk_next_;
  if (left >= kSmallPage) {
    int index = size_class(left);
    if (class_bytes(index) > left) --index;
    // Down to a class of whole pages.
    while (index >= 0 && class_bytes(index) % kSmallPage != 0) --index;
    if (index >= 0) {
      auto* page_class = reinterpret_cast<uint8_t*>(chunk_next_ & ~(kChunkBytes - 1));
      page_class[(chunk_next_ & (kChunkBytes - 1)) / kSmallPage] = static_cast<uint8_t>(index);
      void* block = reinterpret_cast<void*>(chunk_next_);
      give_to_pool(index, &block, 1);
    }
  }
  const auto start = reinterpret_cast<uintptr_t>(chunk);
  for (size_t unit = 0; unit < kChunkBytes >> kUnitBits; ++unit) {
    units_[(start >> kUnitBits) + unit].store(kChunkUnit, std::memory_order_relaxed);
  }
  chunk_next_ = start + kChunkHeader;
  chunk_end_ = start + kChunkBytes;
  return true;
}

void* BlockCache::map_large(int index) {
  const size_t bytes = class_bytes(index);
  void* block = map_huge(bytes);
  if (block == nullptr) return nullptr;
  mapped_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  units_[reinterpret_cast<uintptr_t>(block) >> kUnitBits].store(static_cast<uint8_t>(index + 1),
                                                                std::memory_order_relaxed);
  return block;
}

void BlockCache::unmap_large(void* block, int index) {
  const size_t bytes = class_bytes(index);
  units_[reinterpret_cast<uintptr_t>(block) >> kUnitBits].store(0, std::memory_order_relaxed);
  munmap(block, bytes);
  mapped_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  cached_large_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
}

/// What trim() asks of the threads that it cannot reach.
void BlockCache::drop_large_bins(Magazine* magazine) {
  const uint64_t epoch = trim_epoch_.load(std::memory_order_relaxed);
  if (magazine->trim_epoch == epoch) return;
  magazine->trim_epoch = epoch;
  for (int index = kFirstLarge; index < kNumClasses; ++index) {
    Bin& bin = magazine->bins[index];
    while (bin.count > 0) unmap_large(bin.slots[--bin.count], index);
  }
}

void BlockCache::evict_to_budget(Magazine* magazine) {
  const int64_t budget = max_cached_.load(std::memory_order_relaxed);
  while (cached_large_.load(std::memory_order_relaxed) > budget) {
    int oldest = -1;
    uint64_t oldest_use = 0;
    for (int index = kFirstLarge; index < kNumClasses; ++index) {
      Pool& pool = pools_[index];
      MutexLock lock(pool_mutex(index));
      if (!pool.blocks.empty() && (oldest < 0 || pool.last_use < oldest_use)) {
        oldest = index;
        oldest_use = pool.last_use;
      }
    }
    void* block = nullptr;
    if (oldest >= 0) {
      Pool& pool = pools_[oldest];
      MutexLock lock(pool_mutex(oldest));
      if (pool.blocks.empty()) continue;  // another thread was quicker
      block = pool.blocks.back();
      pool.blocks.pop_back();
    } else if (magazine != nullptr) {
      for (int index = kNumClasses - 1; index >= kFirstLarge && block == nullptr; --index) {
        Bin& bin = magazine->bins[index];
        if (bin.count > 0) {
          block = bin.slots[--bin.count];
          oldest = index;
        }
      }
    }
    if (block == nullptr) return;  // the rest lies in other threads' magazines
    unmap_large(block, oldest);
  }
}

int64_t BlockCache::drop_pools() {
  int64_t dropped = 0;
  for (int index = size_class(kDropLimit); index < kNumClasses; ++index) {
    const size_t bytes = class_bytes(index);
    Pool& pool = pools_[index];
    MutexLock lock(pool_mutex(index));
    for (void* block : pool.blocks) {
      if (index >= kFirstLarge) {
        unmap_large(block, index);
      } else {
        madvise(block, bytes, MADV_DONTNEED);
      }
      dropped += static_cast<int64_t>(bytes);
    }
    if (index >= kFirstLarge) pool.blocks.clear();
  }
  return dropped;
}

int64_t BlockCache::trim() {
  trim_epoch_.fetch_add(1, std::memory_order_relaxed);
  const int64_t before = mapped_.load(std::memory_order_relaxed);
  if (Magazine* magazine = thread_magazine_; magazine != nullptr) {
    drop_large_bins(magazine);
    for (int index = size_class(kDropLimit); index < kFirstLarge; ++index) {
      Bin& bin = magazine->bins[index];
      if (bin.count > 0) give_to_pool(index, bin.slots, bin.count);
      bin.count = 0;
    }
  }
  const int64_t own = std::max<int64_t>(before - mapped_.load(std::memory_order_relaxed), 0);
  return own + drop_pools();
}

CpuAllocatorStats BlockCache::stats() {
  CpuAllocatorStats stats;
  stats.mapped_bytes = mapped_.load(std::memory_order_relaxed);
  stats.cached_large_bytes = cached_large_.load(std::memory_order_relaxed);
  stats.system_allocations = system_allocations_.load(std::memory_order_relaxed);
  stats.in_use_bytes = outside_in_use_.load(std::memory_order_relaxed);
  MutexLock lock(registry_mutex_);
  stats.in_use_bytes += retired_in_use_;
  stats.allocations = retired_allocations_;
  for (const Magazine* magazine : magazines_) {
    stats.in_use_bytes += magazine->in_use.load(std::memory_order_relaxed);
    stats.allocations += magazine->allocations.load(std::memory_order_relaxed);
  }
  return stats;
}

void BlockCache::lock_all() {
  registry_mutex_.lock();
  chunk_mutex_.lock();
  for (PoolLock& lock : pool_locks_) lock.mutex.lock();
}

void BlockCache::unlock_all() {
  for (PoolLock& lock : pool_locks_) lock.mutex.unlock();
  chunk_mutex_.unlock();
  registry_mutex_.unlock();
}

}  // namespace strata::tensor
