#pragma once

#include <functional>

namespace strata::bench {

/// A worker's side of the pipe: answers `run K` with `ok SECONDS VALUE` until the input ends.
/// `steps(k)` returns the value. `before_clock` is called first each time, and not timed.
void serve(
    const std::function<double(long)>& steps, const std::function<void()>& before_clock = [] {});

}  // namespace strata::bench
