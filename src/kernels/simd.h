#pragma once

// Vectors of kLanes floats, a register of the instruction set that a kernel (*.inc) is compiled for.
// Lanes are never added to one another, and fma() rounds once everywhere: so what a kernel computes
// has the same bits for any kLanes. All of it is in an unnamed namespace, so that no code for one
// instruction set is merged into files that are compiled for all processors.

#include <cstdint>

#if defined(__AVX512F__)
#include "kernels/simd_avx512.h"
#elif defined(__AVX2__) && defined(__FMA__)
#include "kernels/simd_avx2.h"
#else
#include "kernels/simd_baseline.h"
#endif

namespace strata::kernels {
namespace {

/// Floats of a cache line. What decides the order of sums counts in these, never in kLanes.
constexpr int64_t kLine = 16;

constexpr int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

}  // namespace
}  // namespace strata::kernels
