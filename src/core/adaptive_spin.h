#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace strata {

/// Whether who waits again and again for the same kind of event should spin before it sleeps: it
/// should while most of the recent waits were short. Else it would take cores from others that
/// compute. Threads: any.
class AdaptiveSpin {
 public:
  /// So long one spins at most: about the cost of a context switch and a wake-up.
  static constexpr std::chrono::microseconds kLimit{60};

  bool pays() const { return score_.load(std::memory_order_relaxed) >= 0; }
  /// A wait has ended.
  void count(std::chrono::steady_clock::duration waited) {
    const int next = score_.load(std::memory_order_relaxed) + (waited <= 2 * kLimit ? 1 : -1);
    score_.store(std::clamp(next, -kMostScore, kMostScore), std::memory_order_relaxed);
  }

 private:
  // Spinning stops after this many more long waits than short ones, and resumes as slowly.
  static constexpr int kMostScore = 8;

  std::atomic<int> score_{0};  // recent short waits minus long ones
};

}  // namespace strata
