#pragma once

#include <cstdint>

// Plain data only: fma_peak.inc is compiled for one instruction set, see tensor/update_kernels.h.

namespace strata::bench {

/// So many multiplications, each with an addition, that nothing holds up: of registers with
/// registers, in chains that do not wait for one another. @return What keeps them alive.
using MultiplyAtPeak = float(int64_t multiplications);

struct FmaPeak {
  MultiplyAtPeak* multiply;
};

const FmaPeak& fma_peak_baseline();
const FmaPeak& fma_peak_avx2();
const FmaPeak& fma_peak_avx512();

}  // namespace strata::bench
