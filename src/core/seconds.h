#pragma once

#include <chrono>

namespace strata::detail {

/// Of any duration, as people read it.
constexpr double in_seconds(std::chrono::duration<double> time) { return time.count(); }

}  // namespace strata::detail
