#include "runtime/gradient_hooks.h"

#include <utility>

namespace strata::detail {
namespace {

struct Taps {
  uint64_t run = 0;
  std::vector<GradientHook> all;
};

Taps& taps_of_thread() {
  thread_local Taps taps;
  return taps;
}

}  // namespace

void add_gradient_hook(GradientHook tap, uint64_t run) {
  Taps& taps = taps_of_thread();
  if (std::exchange(taps.run, run) != run) taps.all.clear();
  taps.all.push_back(std::move(tap));
}

std::vector<GradientHook> take_gradient_hooks() { return std::exchange(taps_of_thread().all, {}); }

}  // namespace strata::detail
