#pragma once

namespace strata {

/// Whether NCCL's library is there.
bool nccl_available();

}  // namespace strata
