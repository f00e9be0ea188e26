#include "collective/call_failure.h"

#include "strata/core/str_cat.h"

namespace strata::collective {

Status failed_call(const Status& status, std::string_view call, const CallOptions& options,
                   int rank, int ranks) {
  return Status(status.code(), str_cat("[collective] ", call, " (id ", options.id,
                                       options.name.empty() ? "" : ", ", options.name, ") on rank ",
                                       rank, " of ", ranks, ": ", status.message()));
}

}  // namespace strata::collective
