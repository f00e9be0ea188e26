// `strata inspect`: runs the program strata-inspect, which links libtorch.
#include "strata/core/error.h"
#include "tools/commands.h"
#include "tools/installed_files.h"

namespace strata::tools {

int inspect_main(int, char** argv) {
  const Program program = find_companion("strata-inspect");
  STRATA_CHECK(!program.path.empty(), kNotFound,
               "[strata inspect] got no program strata-inspect beside strata or in its prefix's "
               "libexec/strata; install strata again");
  run_companion(program, argv);
}

}  // namespace strata::tools
