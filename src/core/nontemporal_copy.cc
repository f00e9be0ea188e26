#include "core/nontemporal_copy.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace strata::detail {

#if defined(__x86_64__)
void nontemporal_copy(std::byte* target, const std::byte* source, int64_t bytes) {
  constexpr int64_t kLine = 64;
  const auto misaligned = static_cast<int64_t>(reinterpret_cast<uintptr_t>(target) % kLine);
  const int64_t head = std::min(bytes, (kLine - misaligned) % kLine);
  std::memcpy(target, source, static_cast<size_t>(head));
  int64_t at = head;
  for (; at + kLine <= bytes; at += kLine) {
    __m128i parts[4];
    for (int i = 0; i < 4; ++i) {
      parts[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + at) + i);
    }
    for (int i = 0; i < 4; ++i) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(target + at) + i, parts[i]);
    }
  }
  std::memcpy(target + at, source + at, static_cast<size_t>(bytes - at));
}
void nontemporal_fence() { _mm_sfence(); }
#else
void nontemporal_copy(std::byte* target, const std::byte* source, int64_t bytes) {
  std::memcpy(target, source, static_cast<size_t>(bytes));
}
void nontemporal_fence() {}
#endif

}  // namespace strata::detail
