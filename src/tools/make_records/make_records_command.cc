// `strata make-records`: runs the program strata-make-records, which links libtorch.
#include "strata/core/error.h"
#include "tools/commands.h"
#include "tools/installed_files.h"

namespace strata::tools {

int make_records_main(int, char** argv) {
  const Program program = find_companion("strata-make-records");
  STRATA_CHECK(
      !program.path.empty(), kNotFound,
      "[strata make-records] got no program strata-make-records beside strata or in its prefix's "
      "libexec/strata; install strata again");
  run_companion(program, argv);
}

}  // namespace strata::tools
