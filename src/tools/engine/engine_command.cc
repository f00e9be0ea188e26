// `strata engine`: finds libtorch, or installs it.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "core/join.h"
#include "strata/core/error.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/engine/engine.h"
#include "tools/data_file.h"

namespace strata::tools {

namespace {

CommandHelp engine_help() {
  return {
      .usage = "strata engine [options]",
      .description =
          R"(Finds the engine, libtorch of the series that strata was built with, and prints its folder. Looks at
$TORCH_ROOT, at the torch that python3 imports and in ~/.cache/strata/engine. If it finds none, it
installs one in the last: PyPI's wheel of torch without its dependencies, its CPU part alone (550 MB to load,
1.4 GB on disk, pinned by SHA-256). With --cuda it is one that has the CUDA part, too, and all that this loads, in a
folder of its own (2.7 GB to load, 4 GB on disk).
)"};
}

enum class Print { kFolder, kCompilerOptions, kLinkerOptions };

void print(const Engine& engine, Print what, bool cuda) {
  const std::string root = engine.root.string();
  switch (what) {
    case Print::kFolder:
      std::cout << root << '\n';
      break;
    case Print::kCompilerOptions:
      std::cout << "-std=c++20 -isystem " << root << "/include -isystem " << root
                << "/include/torch/csrc/api/include\n";
      break;
    case Print::kLinkerOptions:
      std::cout << "-L" << root << "/lib -Wl,-rpath," << root
                << "/lib -Wl,--allow-shlib-undefined -Wl,--no-as-needed -ltorch_cpu -lc10"
                << (cuda ? " -ltorch_cuda -lc10_cuda\n" : "\n");
      break;
  }
}

// Ends as the script ends: this process becomes it.
[[noreturn]] void install(bool cuda) {
  const std::string script = data_file("install_engine.sh").string();
  const char* const words[] = {"bash", script.c_str(), cuda ? "--cuda" : nullptr, nullptr};
  ::execvp("bash", const_cast<char* const*>(words));
  throw Error(ErrorCode::kUnavailable,
              str_cat("[strata engine] cannot start bash: ", std::strerror(errno)));
}

}  // namespace

int engine_main(int argc, char** argv) {
  bool may_install = true, compiler_options = false, linker_options = false, cuda = false;
  std::string wheels;
  CommandLine line("strata engine", engine_help());
  line.flag("--find", "installs nothing; the exit status is 1 if it finds none", may_install,
            false);
  line.flag("--cuda", "with libtorch's CUDA part", cuda);
  line.text("--wheels", "DIR", "takes the wheels from DIR instead of PyPI", wheels);
  line.flag("--cflags", "prints the compiler's options for it, for builds without CMake",
            compiler_options);
  line.flag("--libs", "prints the linker's", linker_options);
  if (!line.read({argv + 1, argv + argc})) {
    std::cout << line.help();
    return 0;
  }
  STRATA_CHECK(line.operands().empty(), kInvalidArgument, "[strata engine] got ",
               line.operands()[0], "; expected an option of strata engine --help");
  if (!wheels.empty()) ::setenv("STRATA_WHEELS", wheels.c_str(), 1);
  const Print what = linker_options     ? Print::kLinkerOptions
                     : compiler_options ? Print::kCompilerOptions
                                        : Print::kFolder;
  std::vector<std::string> rejected;
  if (const auto engine = find_engine(engine_series(), rejected, cuda)) {
    print(*engine, what, cuda);
    return 0;
  }
  // With TORCH_ROOT the user has chosen; another would not be taken.
  if (may_install && what == Print::kFolder && ::getenv("TORCH_ROOT") == nullptr) install(cuda);
  throw Error(
      ErrorCode::kNotFound,
      str_cat("[strata engine] got no libtorch ", engine_series(),
              cuda ? " with its CUDA part" : "", rejected.empty() ? "" : ": ", join(rejected),
              "; expected one in $TORCH_ROOT, in python3 or in ~/.cache/strata/engine, "
              "where `strata engine` installs it"));
}

}  // namespace strata::tools
