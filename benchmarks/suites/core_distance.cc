#include "suites/core_distance.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

#include "tensor/thread_setup.h"

namespace strata::bench {

double core_round_trip(int first, int second) {
  using Clock = std::chrono::steady_clock;
  constexpr int kBatches = 20;  // of which the fastest counts: others may want the cores, too
  constexpr int kRoundTrips = 500;
  alignas(64) std::atomic<bool> sent = false;
  const tensor::ThreadSetupGuard here({.cores = {first}});
  std::thread there([&] {
    tensor::apply_thread_setup({.cores = {second}});
    for (int i = 0; i < kBatches * kRoundTrips; ++i) {
      while (!sent.load(std::memory_order_acquire)) continue;
      sent.store(false, std::memory_order_release);
    }
  });
  double fastest = std::numeric_limits<double>::infinity();
  for (int batch = 0; batch < kBatches; ++batch) {
    const auto begin = Clock::now();
    for (int i = 0; i < kRoundTrips; ++i) {
      sent.store(true, std::memory_order_release);
      while (sent.load(std::memory_order_acquire)) continue;
    }
    const std::chrono::duration<double, std::nano> took = Clock::now() - begin;
    fastest = std::min(fastest, took.count() / kRoundTrips);
  }
  there.join();
  return fastest;
}

}  // namespace strata::bench
