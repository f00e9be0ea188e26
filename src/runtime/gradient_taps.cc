#include "strata/runtime/gradient_taps.h"

#include <utility>

namespace strata::detail {
namespace {

struct Taps {
  uint64_t run = 0;
  std::vector<GradientTap> all;
};

Taps& taps_of_thread() {
  thread_local Taps taps;
  return taps;
}

}  // namespace

void add_gradient_tap(GradientTap tap, uint64_t run) {
  Taps& taps = taps_of_thread();
  if (std::exchange(taps.run, run) != run) taps.all.clear();
  taps.all.push_back(std::move(tap));
}

std::vector<GradientTap> take_gradient_taps() { return std::exchange(taps_of_thread().all, {}); }

}  // namespace strata::detail
