// `strata new DIR`: a copy of the template in share/strata/project (sources: templates/project).
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/data_file.h"

namespace strata::tools {

namespace fs = std::filesystem;

namespace {

CommandHelp new_help() {
  return {
      .usage = "strata new DIR [--name NAME]",
      .description =
          R"(Makes a project in DIR, which must be empty or not there yet: a CMakeLists.txt, a program with
Keras's layers, one with a module and a loop of its own, a Dockerfile and a README that says how to
build them.
)"};
}

// What CMake takes as the name of a project and of a target.
bool is_project_name(const std::string& name) {
  return !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) != 0 &&
         std::ranges::all_of(
             name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

void copy_template(const fs::path& source, const fs::path& target, const std::string& name) {
  std::ifstream in(source, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  fs::create_directories(target.parent_path());
  std::ofstream out(target, std::ios::binary);
  out << replaced(text, "@PROJECT@", name);
  out.close();
  STRATA_CHECK(!in.bad() && out.good(), kUnavailable, "[strata new] cannot write ", target.string(),
               "; check free space and permissions");
}

}  // namespace

int new_main(int argc, char** argv) {
  std::string name;
  CommandLine line("strata new", new_help());
  line.text("--name", "NAME", "the project's name (default: DIR's last part)", name);
  if (!line.read({argv + 1, argv + argc})) {
    std::cout << line.help();
    return 0;
  }
  const std::vector<std::string>& words = line.operands();
  STRATA_CHECK(!words.empty(), kInvalidArgument,
               "[strata new] got no folder; expected strata new DIR");
  STRATA_CHECK(words.size() == 1, kInvalidArgument, "[strata new] got ", words[0], " and ",
               words[1], "; expected one folder");
  const fs::path folder = words[0];
  if (name.empty()) name = fs::absolute(folder / "").lexically_normal().parent_path().filename();
  STRATA_CHECK(is_project_name(name), kInvalidArgument, "[strata new] got the name ", name,
               "; expected a letter, then letters, digits, _ or -; choose one with --name");
  STRATA_CHECK(!fs::exists(folder) || (fs::is_directory(folder) && fs::is_empty(folder)),
               kAlreadyExists, "[strata new] got ", folder.string(),
               ", which exists; expected an empty folder or a new one");

  const fs::path source = data_file("project");
  for (const auto& entry : fs::recursive_directory_iterator(source)) {
    if (entry.is_regular_file())
      copy_template(entry.path(), folder / fs::relative(entry.path(), source), name);
  }
  std::cout << "made the project " << name << " in " << folder.string()
            << "; its README.md tells how to build it\n";
  return 0;
}

}  // namespace strata::tools
