#pragma once

#include <chrono>
#include <functional>

namespace strata::bench {

/// A worker's side of the pipe, for a loop of steps that is not its own. It is made when the first
/// kWarmUp steps are done.
class StepRequests {
 public:
  static constexpr int kWarmUp = 3;

  StepRequests();
  /// Waits for a request. @return how many steps are asked for; 0: the input ended. Their time
  /// begins behind `before_clock`.
  long next(const std::function<void()>& before_clock = [] {});
  /// That they are done. @param value  The last one's loss.
  void answer(double value);

 private:
  std::chrono::steady_clock::time_point start_;
};

/// A worker's side of the pipe: answers `run K` with `ok SECONDS VALUE` until the input ends.
/// `steps(k)` returns the value. `before_clock` is called first each time, and not timed.
void serve(
    const std::function<double(long)>& steps, const std::function<void()>& before_clock = [] {});

/// From here on `serve` measures the core: it counts the multiplications of one of its steps, and a
/// step that it is asked for is as many of them at the core's peak.
void serve_peak_of_steps();

}  // namespace strata::bench
