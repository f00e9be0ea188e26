#include "strata/core/str_cat.h"
#include "tools/commands.h"

namespace strata::tools {

std::string version_text() {
  return str_cat("strata ", STRATA_VERSION, "\nlibtorch ", STRATA_TORCH_VERSION, " (built with)");
}

}  // namespace strata::tools
