#pragma once

#include <functional>

namespace strata::bench {

/// A worker's side of the pipe: answers `run K` with `ok SECONDS VALUE` until the input ends.
/// `steps(k)` returns the value. `before_clock` is called first each time, and not timed.
void serve(
    const std::function<double(long)>& steps, const std::function<void()>& before_clock = [] {});

/// From here on `serve` measures the core: it counts the multiplications of one of its steps, and a
/// step that it is asked for is as many of them at the core's peak.
void serve_peak_of_steps();

}  // namespace strata::bench
