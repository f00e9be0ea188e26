// The `strata` command. Each subcommand is a function in a file of its own, which declares its
// options with a CommandLine.
#include <CLI/CLI.hpp>
#include <array>
#include <string_view>

#include "tools/commands.h"
#include "tools/exit_status.h"

namespace {

struct Command {
  const char* name;
  const char* help;
  int (*main)(int argc, char** argv);  // reads its own options, --help too
};

constexpr std::array kCommands = {
    Command{"launch", "run a program as a cluster, here or on other hosts",
            strata::tools::launch_main},
    Command{"render", "write what starts a cluster on SLURM, Kubernetes or Compose",
            strata::tools::render_main},
    Command{"certs", "make a job's certificates, or check them", strata::tools::certs_main},
    Command{"server", "run steps for standalone clients", strata::tools::server_main},
    Command{"simulate", "what a step takes on other links, with more workers",
            strata::tools::simulate_main},
    Command{"study", "measure how training scales with replicas and servers",
            strata::tools::study_main},
    Command{"inspect", "what a file is, and its first elements", strata::tools::inspect_main},
    Command{"export", "write a Keras model as ONNX, or as a graph", strata::tools::export_main},
    Command{"predict", "predict with an estimator's exported model", strata::tools::predict_main},
    Command{"make-records", "write a folder of images as TFRecord files",
            strata::tools::make_records_main},
    Command{"devices", "what this machine has: cores, NUMA nodes, GPUs",
            strata::tools::devices_main},
    Command{"engine", "find libtorch, or install it", strata::tools::engine_main},
    Command{"new", "make a project that uses strata", strata::tools::new_main},
    Command{"kernels", "what runs on this processor; measure it", strata::tools::kernels_main},
    Command{"bench", "run a benchmark suite; a JSON line a result", strata::tools::bench_main},
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("strata: tf.distribute for C++", "strata");
  app.set_version_flag("--version", strata::tools::version_text());
  app.require_subcommand(0, 1);  // none is checked below: CLI11 would hide an unknown one behind it
  for (const Command& command : kCommands) app.add_subcommand(command.name, command.help);

  return strata::tools::exit_status_of("strata", [&] {
    for (const Command& command : kCommands) {
      if (argc > 1 && std::string_view(argv[1]) == command.name)
        return command.main(argc - 1, argv + 1);
    }
    try {
      app.parse(argc, argv);
      throw CLI::RequiredError("A subcommand");
    } catch (const CLI::ParseError& error) {
      return app.exit(error) == 0 ? 0 : strata::tools::kUsageError;
    }
  });
}
