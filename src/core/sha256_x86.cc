// SHA-256 with the SHA instructions of x86 processors (Intel since Ice Lake, AMD since Zen): five
// times as fast as without. Source: Gulley, Gopal, Yap, Feghali, Guilford, Wolrich, "Intel SHA
// Extensions", 2013.
#include <cpuid.h>
#include <immintrin.h>

#include "core/sha256_blocks.h"

namespace strata::detail {
namespace {

__m128i load(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }

void store(void* to, __m128i value) { _mm_storeu_si128(static_cast<__m128i*>(to), value); }

void blocks_by_instructions(uint32_t* state, const uint8_t* blocks, size_t count) {
  const __m128i swap_bytes = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  // The instructions want the words as ABEF and CDGH.
  const __m128i cdab = _mm_shuffle_epi32(load(state), 0xB1);
  const __m128i efgh = _mm_shuffle_epi32(load(state + 4), 0x1B);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xF0);
  for (; count > 0; --count, blocks += 64) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    __m128i words[4];
    for (int i = 0; i < 4; ++i) words[i] = _mm_shuffle_epi8(load(blocks + 16 * i), swap_bytes);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      __m128i& oldest = words[i % 4];
      const __m128i sum = _mm_add_epi32(oldest, load(kSha256Rounds.data() + 4 * i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
      if (i < 12) {
        const __m128i newest = words[(i + 3) % 4];
        const __m128i middle = _mm_alignr_epi8(newest, words[(i + 2) % 4], 4);
        const __m128i first = _mm_sha256msg1_epu32(oldest, words[(i + 1) % 4]);
        oldest = _mm_sha256msg2_epu32(_mm_add_epi32(first, middle), newest);
      }
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  store(state, _mm_blend_epi16(feba, dchg, 0xF0));
  store(state + 4, _mm_alignr_epi8(dchg, feba, 8));
}

}  // namespace

Sha256Blocks sha256_blocks_of_this_processor() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool sse41 = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_SSE4_1) != 0;
  const bool sha = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_SHA) != 0;
  return sse41 && sha ? &blocks_by_instructions : &sha256_blocks;
}

}  // namespace strata::detail
