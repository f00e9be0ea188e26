#include "suites/floor.h"

namespace strata::bench {

void sum_past_cache(const float* const* sources, float* const* targets, int ranks, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float sum = sources[0][i];
    for (int r = 1; r < ranks; ++r) sum += sources[r][i];
    for (int r = 0; r < ranks; ++r) targets[r][i] = sum;
  }
}

}  // namespace strata::bench
