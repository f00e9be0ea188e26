#pragma once

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "kernels/fenced.h"

namespace strata {

/// While it exists, each piece of memory of libtorch's CPU allocator ends where a page ends that
/// cannot be touched, and begins behind another one.
class FencedAllocator final : public c10::Allocator {
 public:
  FencedAllocator() { c10::SetCPUAllocator(this, kPriority); }
  /// Memory may outlive it.
  ~FencedAllocator() override { c10::SetCPUAllocator(before_, kPriority); }
  FencedAllocator(const FencedAllocator&) = delete;
  FencedAllocator& operator=(const FencedAllocator&) = delete;

  /// The most bytes that were asked for at once.
  size_t largest() const { return largest_; }
  /// The most bytes that were in use at a time.
  size_t peak() const { return peak_; }
  void forget() {
    largest_ = 0;
    peak_ = in_use_.load();
  }

  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, c10::DeviceType::CPU};
    for (size_t seen = largest_; bytes > seen && !largest_.compare_exchange_weak(seen, bytes);) {
    }
    auto memory = std::make_unique<FencedBytes>(bytes);
    void* const data = memory->data();
    const std::lock_guard<std::mutex> lock(mutex());
    memories()[data] = std::move(memory);
    in_use_ += bytes;
    peak_ = std::max(peak_.load(), in_use_.load());
    return {data, data, &release, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t count) const override {
    std::memcpy(to, from, count);
  }

 private:
  static constexpr uint8_t kPriority = 255;
  static std::mutex& mutex() {
    static std::mutex it;
    return it;
  }
  static std::map<void*, std::unique_ptr<FencedBytes>>& memories() {
    static auto* const it = new std::map<void*, std::unique_ptr<FencedBytes>>();
    return *it;
  }
  static void release(void* data) {
    if (data == nullptr) return;
    const std::lock_guard<std::mutex> lock(mutex());
    const auto found = memories().find(data);
    in_use_ -= found->second->bytes();
    memories().erase(found);
  }

  c10::Allocator* before_ = c10::GetCPUAllocator();
  std::atomic<size_t> largest_ = 0;
  std::atomic<size_t> peak_ = 0;
  static inline std::atomic<size_t> in_use_ = 0;
};

}  // namespace strata
