#pragma once

#include <sched.h>

#include <chrono>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace strata {

/// Tells the core that this is a busy wait.
inline void cpu_relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Busy-waits until `done()` or `limit` has passed. Waiters spin briefly before they sleep, because
/// a futex wake-up costs more than most waits between replicas last.
/// @return what `done()` said last.
template <typename Done>
bool spin_until(Done&& done, std::chrono::microseconds limit) {
  using Clock = std::chrono::steady_clock;
  constexpr int kChecksPerClockRead = 64;
  if (done()) return true;
  const auto deadline = Clock::now() + limit;
  while (true) {
    for (int i = 0; i < kChecksPerClockRead; ++i) {
      if (done()) return true;
      cpu_relax();
    }
    if (Clock::now() >= deadline) return done();
    sched_yield();
  }
}

}  // namespace strata
