// `strata export`: runs the program strata-export, which links libtorch.
#include "strata/core/error.h"
#include "tools/commands.h"
#include "tools/installed_files.h"

namespace strata::tools {

int export_main(int, char** argv) {
  const Program program = find_companion("strata-export");
  STRATA_CHECK(!program.path.empty(), kNotFound,
               "[strata export] got no program strata-export beside strata or in its prefix's "
               "libexec/strata; install strata again");
  run_companion(program, argv);
}

}  // namespace strata::tools
