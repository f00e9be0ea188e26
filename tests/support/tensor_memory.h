#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace strata::test {

/// What libtorch's CPU allocator, or strata's, gave a thread.
class TensorMemory : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    if (bytes <= 0) return;  // freed
    ++calls;
    allocated += bytes;
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t calls = 0;
  int64_t allocated = 0;  ///< In bytes, of all calls.
};

/// During `call`.
template <typename Call>
TensorMemory tensor_memory_of(const Call& call) {
  const auto memory = std::make_shared<TensorMemory>();
  const c10::DebugInfoGuard reports(c10::DebugInfoKind::PROFILER_STATE, memory);
  call();
  return *memory;
}

}  // namespace strata::test
