// The `strata` command. Each subcommand is a function in a file of its own; CLI11 stays in this
// one.
#include <CLI/CLI.hpp>
#include <array>
#include <exception>
#include <iostream>
#include <string_view>

#include "strata/core/error.h"
#include "tools/commands.h"

namespace {

struct Command {
  const char* name;
  const char* help;
  int (*main)(int argc, char** argv);  // reads its own arguments, --help too
};

constexpr std::array kCommands = {
    Command{"launch", "run a program as a cluster on this machine", strata::tools::launch_main},
    Command{"certs", "make a job's certificates, or check them", strata::tools::certs_main},
    Command{"inspect", "what a file is, and its first elements", strata::tools::inspect_main},
    Command{"bench", "run a benchmark suite; a JSON line a result", strata::tools::bench_main},
};

constexpr int kUsageError = 2;  // docs/errors.md

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("strata: tf.distribute for C++", "strata");
  app.set_version_flag("--version", strata::tools::version_text());
  app.require_subcommand(0, 1);  // none is checked below: CLI11 would hide an unknown one behind it
  for (const Command& command : kCommands) app.add_subcommand(command.name, command.help);

  try {
    for (const Command& command : kCommands) {
      if (argc > 1 && std::string_view(argv[1]) == command.name)
        return command.main(argc - 1, argv + 1);
    }
    app.parse(argc, argv);
    throw CLI::RequiredError("A subcommand");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  } catch (const strata::Error& error) {
    std::cerr << "strata: " << strata::error_code_name(error.code()) << ": " << error.what()
              << '\n';
    if (error.code() == strata::ErrorCode::kInvalidArgument) return kUsageError;
  } catch (const std::exception& error) {
    std::cerr << "strata: " << error.what() << '\n';
  }
  return 1;
}
