#pragma once

#include <functional>

namespace strata::tools {

/// A worker's side of the pipe: answers `run K` with `ok SECONDS VALUE` until the input ends.
/// `steps(k)` returns the value.
void serve(const std::function<double(long)>& steps);

}  // namespace strata::tools
