#include "collective/fan_out.h"

#include <algorithm>
#include <cstring>

#include <c10/util/SmallVector.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace strata::collective {
namespace {

constexpr int64_t kBlockBytes = 8192;

}  // namespace

#if defined(__x86_64__)
void stream_copy(std::byte* target, const std::byte* source, int64_t bytes) {
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
  _mm_sfence();  // ordered before whatever tells another rank of it
}
#else
void stream_copy(std::byte* target, const std::byte* source, int64_t bytes) {
  std::memcpy(target, source, static_cast<size_t>(bytes));
}
#endif

void reduce_to_all(const Reduction& reduction, std::span<const Operand> sources, int64_t elements,
                   std::span<std::byte* const> targets, bool stream) {
  const auto n = static_cast<int>(sources.size());
  if (targets.size() == 1 && !stream) {
    reduction.reduce(sources.data(), n, elements, {.data = targets[0]}, true);
    return;
  }
  alignas(64) std::byte sums[kBlockBytes];
  const int64_t width = reduction.element_bytes();
  const int64_t block = kBlockBytes / width;
  c10::SmallVector<Operand, 16> at(sources.begin(), sources.end());
  for (int64_t begin = 0; begin < elements; begin += block) {
    const int64_t count = std::min(block, elements - begin);
    reduction.reduce(at.data(), n, count, {.data = sums}, true);
    for (std::byte* const target : targets) {
      if (stream) {
        stream_copy(target + begin * width, sums, count * width);
      } else {
        std::memcpy(target + begin * width, sums, static_cast<size_t>(count * width));
      }
    }
    for (Operand& operand : at) {
      if (operand.data == nullptr) continue;
      operand.data = static_cast<std::byte*>(operand.data) +
                     count * (operand.partial ? reduction.partial_bytes() : width);
    }
  }
}

}  // namespace strata::collective
