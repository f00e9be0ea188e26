#include <ATen/Version.h>
#include <torch/version.h>

#include "strata/core/str_cat.h"
#include "tools/commands.h"

namespace strata::tools {

std::string version_text() {
  return str_cat("strata ", STRATA_VERSION, "\nlibtorch ", TORCH_VERSION,
                 " (built with), CPU capability ", at::get_cpu_capability());
}

}  // namespace strata::tools
