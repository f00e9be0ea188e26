#pragma once

#include "strata/collective/communication_options.h"

namespace strata::collective {

/// `options` for a Planner: an implementation that names a transport (WIRE, MPI, NCCL) leaves the
/// algorithm to it.
inline CommunicationOptions algorithm_options(CommunicationOptions options) {
  using Words = CommunicationImplementation;
  for (const Words::Word transport : {Words::kWire, Words::kMpi, Words::kNccl}) {
    if (options.implementation == transport) options.implementation = Words::kAuto;
  }
  return options;
}

}  // namespace strata::collective
