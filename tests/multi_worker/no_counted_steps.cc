#include "multi_worker/counted_steps.h"
#include "strata/core/error.h"

namespace strata::test {

void count_steps(MultiWorkerMirroredStrategy&) {
  throw Error(ErrorCode::kUnimplemented,
              "[trainer] count: only emulated GPUs count; run strata_gpu_trainer");
}

}  // namespace strata::test
