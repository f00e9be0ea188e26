// `strata bench`: runs the program strata-bench, which is built from the sources (benchmarks/) and
// not installed.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "strata/core/error.h"
#include "tools/commands.h"

namespace strata::tools {

namespace fs = std::filesystem;

int bench_main(int, char** argv) {
  const fs::path beside = fs::read_symlink("/proc/self/exe").parent_path() / "strata-bench";
  const char* const named = std::getenv("STRATA_BENCH");
  const std::string program = named != nullptr ? named : beside.string();
  ::execv(program.c_str(), argv);
  STRATA_CHECK(errno != ENOENT, kNotFound, "[strata bench] got no program ", program,
               "; it is not installed: build strata's sources (make build) and run their "
               "build/release/strata, or set STRATA_BENCH to it");
  throw Error(ErrorCode::kUnknown, str_cat("[strata bench] ", program, ": ", std::strerror(errno)));
}

}  // namespace strata::tools
