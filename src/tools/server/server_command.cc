// `strata server`: runs the program strata-server, which links libtorch.
#include "strata/core/error.h"
#include "tools/commands.h"
#include "tools/installed_files.h"

namespace strata::tools {

int server_main(int, char** argv) {
  const Program program = find_companion("strata-server");
  STRATA_CHECK(!program.path.empty(), kNotFound,
               "[strata server] got no program strata-server beside strata or in its prefix's "
               "libexec/strata; install strata again");
  run_companion(program, argv);
}

}  // namespace strata::tools
