// The commands that are programs of their own, since they link libtorch: strata-inspect and so on.
#include <string>

#include "strata/core/error.h"
#include "tools/commands.h"
#include "tools/find_companion.h"

namespace strata::tools {
namespace {

[[noreturn]] void run(const std::string& command, char** argv) {
  const std::string name = "strata-" + command;
  const Program program = find_companion(name);
  STRATA_CHECK(!program.path.empty(), kNotFound, "[strata ", command, "] got no program ", name,
               " beside strata or in its prefix's libexec/strata; install strata again");
  run_companion(program, argv);
}

}  // namespace

int devices_main(int, char** argv) { run("devices", argv); }
int export_main(int, char** argv) { run("export", argv); }
int inspect_main(int, char** argv) { run("inspect", argv); }
int make_records_main(int, char** argv) { run("make-records", argv); }
int predict_main(int, char** argv) { run("predict", argv); }
int server_main(int, char** argv) { run("server", argv); }
int simulate_main(int, char** argv) { run("simulate", argv); }
int study_main(int, char** argv) { run("study", argv); }

}  // namespace strata::tools
