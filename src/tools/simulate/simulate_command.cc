// `strata simulate`: runs the program strata-simulate, which links libtorch.
#include "strata/core/error.h"
#include "tools/commands.h"
#include "tools/installed_files.h"

namespace strata::tools {

int simulate_main(int, char** argv) {
  const Program program = find_companion("strata-simulate");
  STRATA_CHECK(!program.path.empty(), kNotFound,
               "[strata simulate] got no program strata-simulate beside strata or in its prefix's "
               "libexec/strata; install strata again");
  run_companion(program, argv);
}

}  // namespace strata::tools
