#pragma once

#include <sched.h>

#include <cstdint>

namespace strata::detail {

/// 1 + the core that runs this thread now, or 0 where the system does not say. The thread may be on
/// another one by the time that the caller looks at it: for decisions that only cost time.
inline uint32_t current_core() { return static_cast<uint32_t>(::sched_getcpu() + 1); }

}  // namespace strata::detail
