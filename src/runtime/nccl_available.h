#pragma once

namespace strata {

/// Whether NCCL's library can be opened.
bool nccl_available();

}  // namespace strata
