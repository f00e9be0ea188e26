#pragma once

#include <c10/core/CPUAllocator.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace strata::kernels {

/// Memory for a kernel's call, aligned to 64 bytes (a program's own allocator may align to less).
class Scratch {
 public:
  explicit Scratch(int64_t floats) {
    size_t space = static_cast<size_t>(floats) * sizeof(float) + kAlignment;
    memory_ = c10::GetCPUAllocator()->allocate(space);
    void* start = memory_.get();
    data_ = static_cast<float*>(std::align(kAlignment, space - kAlignment, start, space));
  }
  float* data() const { return data_; }

 private:
  static constexpr size_t kAlignment = 64;
  c10::DataPtr memory_;
  float* data_;
};

/// Memory for calls one after another: it grows, and is kept from one to the next.
class KeptScratch {
 public:
  float* at_least(int64_t floats) {
    if (!memory_ || floats > floats_) {
      memory_.emplace(floats);
      floats_ = floats;
    }
    return memory_->data();
  }

 private:
  std::optional<Scratch> memory_;
  int64_t floats_ = 0;
};

}  // namespace strata::kernels
