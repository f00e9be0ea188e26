#pragma once

#include <cstddef>

namespace strata::detail {

/// The memory that one request, message or file may ask for at most, bytes: that of the machine, so
/// that what can never be had is refused with a reason, before it is allocated.
size_t memory_limit();

/// Makes it smaller on this thread, for tests. @throws nothing. Not nested.
class ScopedMemoryLimit {
 public:
  explicit ScopedMemoryLimit(size_t bytes);
  ~ScopedMemoryLimit();
  ScopedMemoryLimit(const ScopedMemoryLimit&) = delete;
  ScopedMemoryLimit& operator=(const ScopedMemoryLimit&) = delete;
};

}  // namespace strata::detail
