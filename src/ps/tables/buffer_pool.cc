#include "ps/tables/buffer_pool.h"

#include <algorithm>
#include <utility>

namespace strata::ps {
namespace {

/// A call has up to three buffers, and few calls are under way at a time.
constexpr size_t kMostFree = 16;

}  // namespace

BufferPool::Buffer BufferPool::take(size_t size) {
  Buffer buffer;
  buffer.pool_ = this;
  buffer.size_ = size;
  {
    // The smallest that is large enough, and not so large that another call will miss it.
    const std::lock_guard lock(mutex_);
    auto best = free_.end();
    for (auto each = free_.begin(); each != free_.end(); ++each) {
      if (each->capacity < size || each->capacity / 2 > size) continue;
      if (best == free_.end() || each->capacity < best->capacity) best = each;
    }
    if (best != free_.end()) {
      buffer.memory_ = std::move(best->memory);
      buffer.capacity_ = best->capacity;
      free_.erase(best);
      return buffer;
    }
  }
  buffer.memory_ = std::make_unique_for_overwrite<std::byte[]>(std::max<size_t>(size, 1));
  buffer.capacity_ = size;
  return buffer;
}

void BufferPool::give_back(std::unique_ptr<std::byte[]> memory, size_t capacity) {
  const std::lock_guard lock(mutex_);
  if (free_.size() >= kMostFree) free_.erase(free_.begin());
  free_.push_back({std::move(memory), capacity});
}

}  // namespace strata::ps
