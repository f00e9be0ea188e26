#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "collective/algorithms/reduction.h"
#include "strata/collective/algorithms.h"
#include "strata/collective/reduce_op.h"
#include "strata/collective/schedule.h"

namespace strata::collective {

struct CallTensors;

/// One rank's side of a collective, its tensors as memory.
struct CollectiveCall {
  Collective collective = Collective::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  int64_t elements = 0;  ///< of the whole
  int64_t element_bytes = 1;
  /// The result's first element is element `result_begin` of the whole. A broadcast's and an
  /// all_gather's holds what the rank brings.
  std::byte* result = nullptr;
  int64_t result_begin = 0;
  std::span<const std::byte* const> values = {};  ///< one a replica of the rank
  const Reduction* reduction = nullptr;           ///< null where nothing is added
  int root = 0;
  const CallTensors* tensors = nullptr;  ///< whose memory it is; null where there are none

  int64_t bytes() const { return elements * element_bytes; }
  /// Elements that rank `rank` of `ranks` joins or brings.
  Range part(int rank, int ranks) const {
    if (collective == Collective::kAllReduce) return chunk_range(elements, ranks, rank);
    return {elements / ranks * rank, elements / ranks * (rank + 1)};
  }
  /// Where element `index` of the whole lies in the result.
  std::byte* at(int64_t index) const { return result + (index - result_begin) * element_bytes; }
};

}  // namespace strata::collective
