#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "collective/collective_call.h"
#include "strata/collective/algorithms.h"
#include "strata/collective/reduce_op.h"

namespace strata::collective {

/// What a rank calls, in the 64 bits that travel with each of its messages.
struct CallFingerprint {
  Collective collective = Collective::kAllReduce;
  ReduceOp op = ReduceOp::kSum;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  int64_t elements = 0;  ///< below 2^40; larger ones lose their upper bits
  uint64_t plan = 0;     ///< `plan_of` what ranks must have agreed on beside

  uint64_t pack() const;
};

/// @param schedule  The algorithm's name.  @param root  Of a broadcast.  @param name  The call's.
uint64_t plan_of(std::string_view schedule, int root, std::string_view name);

/// Of `call`, which `schedule` runs under `name`.
CallFingerprint fingerprint_of(const CollectiveCall& call, std::string_view schedule,
                               std::string_view name);

/// "all_reduce(SUM) of 1000 Float, plan 1a2".
std::string describe_call(uint64_t fingerprint);

/// `text` with a description behind each "fingerprint 0x0123456789abcdef".
std::string with_calls_described(const std::string& text);

}  // namespace strata::collective
