#include "tools/find_companion.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <vector>

#include "core/join.h"
#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "tools/engine/engine.h"

namespace strata::tools {

namespace fs = std::filesystem;

namespace {

fs::path folder_of_command() { return fs::read_symlink("/proc/self/exe").parent_path(); }

}  // namespace

Program find_companion(const std::string& name) {
  const fs::path folder = folder_of_command();
  std::error_code ignored;
  if (fs::exists(folder / name, ignored)) return {.path = folder / name, .installed = false};
  const fs::path installed = (folder / "../libexec/strata" / name).lexically_normal();
  if (fs::exists(installed, ignored)) return {.path = installed, .installed = true};
  return {};
}

void run_companion(const Program& program, char** argv) {
  std::vector<std::string> rejected;
  if (program.installed) {
    const auto engine = find_engine(engine_series(), rejected);
    STRATA_CHECK(engine, kNotFound, "[strata] ", program.path.filename().string(),
                 " got no libtorch ", engine_series(), rejected.empty() ? "" : ": ", join(rejected),
                 "; run `strata engine`, which installs it");
    // NOLINTBEGIN(concurrency-mt-unsafe): a command with one thread
    const char* const others = std::getenv("LD_LIBRARY_PATH");
    const std::string path = str_cat((engine->root / "lib").string(), others != nullptr ? ":" : "",
                                     others != nullptr ? others : "");
    ::setenv("LD_LIBRARY_PATH", path.c_str(), 1);
    // NOLINTEND(concurrency-mt-unsafe)
  }
  ::execv(program.path.c_str(), argv);
  throw Error(ErrorCode::kUnavailable,
              str_cat("[strata] cannot start ", program.path.string(), ": ", std::strerror(errno)));
}

}  // namespace strata::tools
