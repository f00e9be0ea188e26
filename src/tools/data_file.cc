#include "tools/data_file.h"

#include <system_error>

#include "strata/core/error.h"
#include "strata/core/str_cat.h"

namespace strata::tools {

namespace fs = std::filesystem;

fs::path data_file(const std::string& name) {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  std::error_code ignored;
  // Of a build folder, of bin and of libexec/strata.
  for (const char* share : {"share/strata", "../share/strata", "../../share/strata"}) {
    const fs::path file = folder / share / name;
    if (fs::exists(file, ignored)) return file.lexically_normal();
  }
  throw Error(ErrorCode::kNotFound, str_cat("[strata] got no share/strata/", name, " beside ",
                                            folder.string(), " or above it; install strata again"));
}

}  // namespace strata::tools
