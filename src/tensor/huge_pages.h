#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace strata::tensor {

inline constexpr size_t kSmallPage = 4096;
inline constexpr size_t kHugePage = size_t{2} << 20;

constexpr size_t round_up(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Maps `bytes` zeroed bytes that start at a multiple of `alignment` (a power of two, at least a
/// page) and asks for huge pages. nullptr when the kernel has none left. Unmap with munmap(start,
/// bytes).
inline void* map_huge(size_t bytes, size_t alignment = kHugePage) {
  bytes = round_up(bytes, kSmallPage);
  const size_t reserved = bytes + alignment;
  void* raw = mmap(nullptr, reserved, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t start = round_up(begin, alignment);
  if (start > begin) munmap(raw, start - begin);
  const uintptr_t tail = begin + reserved - (start + bytes);
  if (tail > 0) munmap(reinterpret_cast<void*>(start + bytes), tail);
  // Advice only: without huge pages everything works, with more page faults at first touch.
  if (bytes >= kHugePage) madvise(reinterpret_cast<void*>(start), bytes, MADV_HUGEPAGE);
  return reinterpret_cast<void*>(start);
}

}  // namespace strata::tensor
