#include "strata/runtime/stop_consensus.h"

#include "strata/core/str_cat.h"

namespace strata {

MembershipChanged::MembershipChanged(int64_t finished_steps)
    : Error(ErrorCode::kAborted,
            str_cat("[preemption] a worker waits to take part, and the state after step ",
                    finished_steps, " is saved; pass this error to Strategy::recover")) {}

StopConsensus::~StopConsensus() = default;

}  // namespace strata
