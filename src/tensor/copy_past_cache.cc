#include "tensor/copy_past_cache.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace strata::tensor {

void copy_past_cache(void* to, const void* from, size_t bytes) {
#if defined(__x86_64__)
  constexpr size_t kLine = 64;
  constexpr size_t kVector = sizeof(__m128i);
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
  const size_t head = std::min((kLine - reinterpret_cast<uintptr_t>(out) % kLine) % kLine, bytes);
  std::memcpy(out, in, head);
  size_t at = head;
  for (; at + kLine <= bytes; at += kLine) {
    for (size_t v = at; v < at + kLine; v += kVector) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + v),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + v)));
    }
  }
  std::memcpy(out + at, in + at, bytes - at);
  _mm_sfence();  // or who is told that it is there might not see it
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace strata::tensor
