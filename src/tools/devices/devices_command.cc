// `strata devices`: runs the program strata-devices, which links libtorch.
#include "strata/core/error.h"
#include "tools/commands.h"
#include "tools/installed_files.h"

namespace strata::tools {

int devices_main(int, char** argv) {
  const Program program = find_companion("strata-devices");
  STRATA_CHECK(!program.path.empty(), kNotFound,
               "[strata devices] got no program strata-devices beside strata or in its prefix's "
               "libexec/strata; install strata again");
  run_companion(program, argv);
}

}  // namespace strata::tools
