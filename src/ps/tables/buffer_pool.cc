#include "ps/tables/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "core/checked_size.h"

namespace strata::ps {
namespace {

/// A call has up to three buffers, and few calls are under way at a time.
constexpr size_t kMostFree = 16;

constexpr size_t kLeast = 4096;

/// Somewhat more, so that a call for somewhat more can use it.
size_t round_up(size_t size) {
  const size_t step = std::max(kLeast, std::bit_floor(size) / 8);
  const auto rounded = strata::detail::checked_round_up(std::max(kLeast, size), step);
  if (!rounded.has_value()) throw std::bad_alloc();
  return *rounded;
}

}  // namespace

BufferPool::BufferPool(std::function<Block(size_t bytes)> allocate)
    : allocate_(std::move(allocate)) {
  free_.reserve(kMostFree);
}

BufferPool::BufferPool()
    : BufferPool([](size_t bytes) -> Block {
        return {new std::byte[bytes], std::default_delete<std::byte[]>()};
      }) {}

BufferPool::Buffer BufferPool::take(size_t size) {
  Buffer buffer;
  buffer.size_ = size;
  {
    // The smallest that is large enough, and not so large that another call will miss it.
    const MutexLock lock(mutex_);
    auto best = free_.end();
    for (auto each = free_.begin(); each != free_.end(); ++each) {
      if (each->capacity < size || each->capacity / 2 > std::max(size, kLeast)) continue;
      if (best == free_.end() || each->capacity < best->capacity) best = each;
    }
    if (best != free_.end()) {
      buffer.pool_ = this;
      buffer.memory_ = std::move(best->memory);
      buffer.capacity_ = best->capacity;
      free_.erase(best);
      return buffer;
    }
  }
  // It is the pool's only once it has memory: an allocation that fails must leave nothing to give
  // back.
  const size_t capacity = round_up(size);
  buffer.memory_ = allocate_(capacity);
  buffer.capacity_ = capacity;
  buffer.pool_ = this;
  return buffer;
}

/// Called by destructors: `free_` has room already.
void BufferPool::give_back(Free memory) noexcept {
  const MutexLock lock(mutex_);
  if (free_.size() >= kMostFree) free_.erase(free_.begin());
  free_.push_back(std::move(memory));
}

}  // namespace strata::ps
