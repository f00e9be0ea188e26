#pragma once

#include <filesystem>
#include <string>

namespace strata::tools {

/// A program that the command starts: beside it, or in libexec/strata. The command itself does not
/// link libtorch, so that `strata engine` runs without one; programs that do are apart.
struct Program {
  std::filesystem::path path;
  bool installed;  ///< under a prefix: the loader needs libtorch's path
};

/// @return an empty path if it does not exist.
Program find_companion(const std::string& name);

/// Becomes that program, with libtorch where the loader finds it.
/// @throws Error  kNotFound: no libtorch for an installed program; kUnavailable: it cannot start.
[[noreturn]] void run_companion(const Program& program, char** argv);

}  // namespace strata::tools
