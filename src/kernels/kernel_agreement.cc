#include "kernels/kernel_agreement.h"

#include <cstdlib>

#include "kernels/kernel_choice.h"
#include "strata/core/error.h"
#include "strata/core/log.h"
#include "strata/core/str_cat.h"
#include "strata/kernels/cpu_kernels.h"

namespace strata::kernels {

std::string kernels_of_replicas(bool portable) {
  return portable ? str_cat("portable/", kKernelArithmetic) : kernel_table_name();
}

bool mismatch_allowed() {
  const char* const value = std::getenv("STRATA_KERNELS_MISMATCH");
  const std::string_view wanted = value == nullptr ? "" : value;
  STRATA_CHECK(wanted.empty() || wanted == "allow" || wanted == "refuse", kInvalidArgument,
               "[cpu_kernels] STRATA_KERNELS_MISMATCH: got '", wanted,
               "'; expected allow or refuse");
  return wanted == "allow";
}

void require_same_kernels(std::string_view what, std::string_view expected, std::string_view own,
                          bool allowed) {
  if (expected.empty() || own.empty() || expected == own) return;
  STRATA_CHECK(allowed, kFailedPrecondition, what, " the kernels '", expected,
               "', and this process has '", own,
               "', which round otherwise; expected the same: set STRATA_KERNELS alike, or "
               "STRATA_KERNELS_MISMATCH=allow to go on with other bits");
  STRATA_LOG(kWarning) << what << " the kernels '" << expected << "', and this process has '" << own
                       << "': the bits of what follows may differ (STRATA_KERNELS_MISMATCH=allow)";
}

}  // namespace strata::kernels
