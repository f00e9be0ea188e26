#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/mutex.h"

namespace strata::ps {

/// Memory that messages come into and go out of, used again: fresh pages cost more than the copy.
/// Threads: any.
class BufferPool {
 public:
  /// Memory, and what holds it.
  using Block = std::shared_ptr<std::byte>;

  BufferPool();
  /// @param allocate  Where fresh memory comes from.
  explicit BufferPool(std::function<Block(size_t bytes)> allocate);

  /// Returns to its pool, which must outlive it.
  class Buffer {
   public:
    Buffer() = default;
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept {
      Buffer moved(std::move(other));
      swap(moved);
      return *this;
    }
    ~Buffer() {
      if (pool_ != nullptr) pool_->give_back({std::move(memory_), capacity_});
    }

    std::byte* data() const { return memory_.get(); }
    size_t size() const { return size_; }

   private:
    friend class BufferPool;
    void swap(Buffer& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(memory_, other.memory_);
      std::swap(size_, other.size_);
      std::swap(capacity_, other.capacity_);
    }

    BufferPool* pool_ = nullptr;
    Block memory_;
    size_t size_ = 0;
    size_t capacity_ = 0;
  };

  /// Of `size` bytes, whose values are arbitrary; aligned for every number.
  /// @throws what the allocator throws; the pool is then as it was.
  Buffer take(size_t size);

 private:
  struct Free {
    Block memory;
    size_t capacity;
  };
  void give_back(Free memory) noexcept;

  const std::function<Block(size_t bytes)> allocate_;
  Mutex mutex_;
  std::vector<Free> free_ STRATA_GUARDED_BY(mutex_);
};

}  // namespace strata::ps
