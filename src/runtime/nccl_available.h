#pragma once

namespace strata {

/// Whether this build has NCCL: nccl.cc says yes, no_nccl.cc no.
bool nccl_available();

}  // namespace strata
