#pragma once

#include <cstdint>
#include <functional>

namespace strata::bench {

/// The multiplications of matrix products, convolutions, recurrent layers and attention that `run`
/// makes, on all threads, counted as libtorch's operators are called: what this library's operators
/// multiply is not seen, so STRATA_KERNELS must be `libtorch`. Scores that a causal mask hides, and
/// what attention computes twice to save memory, do not count.
int64_t count_multiplications(const std::function<void()>& run);

/// Makes so many, each with an addition, as fast as a core can. @return What keeps them alive.
/// @throws Error kUnimplemented: the processor has no instruction for them.
float multiply_at_peak(int64_t multiplications);

}  // namespace strata::bench
