#pragma once

#include "strata/core/export.h"

namespace strata {

/// While one exists, Ctrl-C (SIGINT) does not kill the process: the next `Strategy::run`, or the
/// next `throw_if_interrupted`, throws Error kCancelled, so that destructors restore the terminal
/// and `main` can exit with 130. A second Ctrl-C kills as usual. Only one may exist at a time; its
/// destructor restores the old handler.
class STRATA_API InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

/// True after Ctrl-C under an InterruptGuard.
STRATA_API bool interrupted();

/// @throws Error  kCancelled after Ctrl-C under an InterruptGuard.
STRATA_API void throw_if_interrupted();

}  // namespace strata
