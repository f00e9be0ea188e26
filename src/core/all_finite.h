#pragma once

#include <cstdint>

namespace strata {

/// Whether no value is NaN or infinite, at the speed of memory.
bool all_finite(const float* values, int64_t size);
bool all_finite(const double* values, int64_t size);

}  // namespace strata
