#include <emmintrin.h>

#include "suites/floor.h"

namespace strata::bench {

void sum_past_cache(const float* const* sources, float* const* targets, int ranks, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    __m128 sum[4];
    for (int part = 0; part < 4; ++part) sum[part] = _mm_load_ps(sources[0] + i + 4 * part);
    for (int r = 1; r < ranks; ++r) {
      for (int part = 0; part < 4; ++part) {
        sum[part] = _mm_add_ps(sum[part], _mm_load_ps(sources[r] + i + 4 * part));
      }
    }
    for (int r = 0; r < ranks; ++r) {
      for (int part = 0; part < 4; ++part) _mm_stream_ps(targets[r] + i + 4 * part, sum[part]);
    }
  }
  _mm_sfence();
}

}  // namespace strata::bench
