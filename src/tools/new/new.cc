// `strata new DIR`: a copy of the template in share/strata/project (sources: templates/project).
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "tools/arguments.h"
#include "tools/commands.h"
#include "tools/installed_files.h"

namespace strata::tools {

namespace fs = std::filesystem;

namespace {

constexpr const char* kHelp = R"(usage: strata new DIR [--name NAME]

Makes a project in DIR, which must be empty or not there yet: a CMakeLists.txt, a program with Keras's
layers, one with a module and a loop of its own, a Dockerfile and a README that says how to build them.

  --name NAME    the project's name (default: DIR's last part)
)";

struct NewOptions {
  fs::path folder;
  std::string name;
};

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
  Arguments arguments("strata new", {argv + 1, argv + argc});
  NewOptions options;
  while (const auto word = arguments.next()) {
    if (*word == "--help" || *word == "-h") {
      std::cout << kHelp;
      return 0;
    }
    if (*word == "--name") {
      options.name = arguments.value();
    } else if (arguments.is_option()) {
      arguments.refuse_option();
    } else {
      STRATA_CHECK(options.folder.empty(), kInvalidArgument, "[strata new] got ",
                   options.folder.string(), " and ", *word, "; expected one folder");
      options.folder = *word;
    }
  }
  STRATA_CHECK(!options.folder.empty(), kInvalidArgument,
               "[strata new] got no folder; expected strata new DIR");
  if (options.name.empty())
    options.name = fs::absolute(options.folder / "").lexically_normal().parent_path().filename();
  STRATA_CHECK(is_project_name(options.name), kInvalidArgument, "[strata new] got the name ",
               options.name,
               "; expected a letter, then letters, digits, _ or -; choose one with --name");
  STRATA_CHECK(!fs::exists(options.folder) ||
                   (fs::is_directory(options.folder) && fs::is_empty(options.folder)),
               kAlreadyExists, "[strata new] got ", options.folder.string(),
               ", which exists; expected an empty folder or a new one");

  const fs::path source = data_file("project");
  for (const auto& entry : fs::recursive_directory_iterator(source)) {
    if (entry.is_regular_file())
      copy_template(entry.path(), options.folder / fs::relative(entry.path(), source),
                    options.name);
  }
  std::cout << "made the project " << options.name << " in " << options.folder.string()
            << "; its README.md tells how to build it\n";
  return 0;
}

}  // namespace strata::tools
