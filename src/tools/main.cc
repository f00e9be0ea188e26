// The `strata` command. Each subcommand is a function in a file of its own; CLI11 stays in this
// one.
#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "strata/core/error.h"
#include "tools/commands.h"

namespace {

// Hands `arguments` to a subcommand as a main() of its own would get them.
int call(int (*command)(int, char**), std::string name, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), std::move(name));
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return command(static_cast<int>(arguments.size()), argv.data());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("strata: tf.distribute for C++", "strata");
  app.set_version_flag("--version", strata::tools::version_text());
  app.require_subcommand(0, 1);  // none is checked below: CLI11 would hide an unknown one behind it
  auto* bench = app.add_subcommand("bench", "run a benchmark suite; a JSON line a result");
  bench->prefix_command();  // the suite reads its own arguments, --help too
  bench->set_help_flag();
  auto* inspect = app.add_subcommand("inspect", "what a file is, and its first elements");
  inspect->prefix_command();
  inspect->set_help_flag();

  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) throw CLI::RequiredError("A subcommand");
    if (inspect->parsed())
      return call(strata::tools::inspect_main, "strata inspect", inspect->remaining());
    return call(strata::tools::bench_main, "strata bench", bench->remaining());
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const strata::Error& error) {
    std::cerr << "strata: " << strata::error_code_name(error.code()) << ": " << error.what()
              << '\n';
  } catch (const std::exception& error) {
    std::cerr << "strata: " << error.what() << '\n';
  }
  return 1;
}
