#pragma once

#include "strata/strategies/multi_worker_mirrored_strategy.h"

namespace strata::test {

/// Trains small models on emulated GPUs, by `fit` and by a loop of one's own, in all processes together,
/// and prints for what the host waited in 10 steps and in 60: "counted fit: ...".
/// @throws Error  kInternal: it waits, copies or allocates more often in more steps. kUnimplemented: a
///   program without emulated GPUs.
void count_steps(MultiWorkerMirroredStrategy& strategy);

}  // namespace strata::test
