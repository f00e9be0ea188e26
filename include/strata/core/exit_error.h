#pragma once

#include <string>

#include "strata/core/error.h"
#include "strata/core/export.h"

namespace strata {

/// An error after which the program ends with an exit code of its own, from which a launcher knows
/// what to do: `Preempted`, for example. `run_main` returns it.
class STRATA_API ExitError : public Error {
 public:
  ExitError(int exit_code, ErrorCode code, const std::string& message)
      : Error(code, message), exit_code_(exit_code) {}

  int exit_code() const noexcept { return exit_code_; }

 private:
  int exit_code_;
};

}  // namespace strata
