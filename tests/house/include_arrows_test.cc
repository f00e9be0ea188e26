// The arrows between modules: which may include which, as the table of src/README.md says.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "house/read_file.h"
#include "strata/core/str_cat.h"
#include "support/source_path.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

struct Module {
  std::set<std::string> may_include;  // directly
  bool without_torch = false;
};

// The table of src/README.md: | `module` | `other`, `other` (no libtorch) |
std::map<std::string, Module> read_table() {
  std::map<std::string, Module> modules;
  std::istringstream lines(read_file(fs::path(test::source_path()) / "src/README.md"));
  static const std::regex kRow("\\| `(\\w+)` \\| (.*) \\|");
  static const std::regex kName("`(\\w+)`");
  std::vector<std::string> include_all;
  for (std::string line; std::getline(lines, line);) {
    std::smatch row;
    if (!std::regex_match(line, row, kRow)) continue;
    const std::string others = row[2];
    Module& module = modules[row[1]];
    module.without_torch = others.find("(no libtorch)") != std::string::npos;
    for (std::sregex_iterator it(others.begin(), others.end(), kName), end; it != end; ++it) {
      module.may_include.insert((*it)[1]);
    }
    if (others == "all") include_all.push_back(row[1]);
  }
  for (const std::string& name : include_all) {
    for (const auto& [other, module] : modules) {
      if (other != name) modules[name].may_include.insert(other);
    }
  }
  return modules;
}

const std::map<std::string, Module>& table() {
  static const std::map<std::string, Module> modules = read_table();
  return modules;
}

// The module, those that it may include, and those that these may include.
std::set<std::string> reachable(const std::string& module) {
  std::set<std::string> result = {module};
  for (const auto& next : table().at(module).may_include) result.merge(reachable(next));
  return result;
}

struct Include {
  std::string path;
  bool quoted;
};

std::vector<Include> includes_of(const std::string& text) {
  static const std::regex kPattern(R"re((^|\n)[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">])re");
  std::vector<Include> result;
  for (std::sregex_iterator it(text.begin(), text.end(), kPattern), end; it != end; ++it) {
    result.push_back({(*it)[3], (*it)[2] == "\""});
  }
  return result;
}

using Names = std::set<std::string>;

struct Classes {
  Names defined;
  Names declared;  // "class X;" alone
};

// Those at namespace scope, where lines are not indented, but for those of libtorch's namespaces.
Classes classes_of(const std::string& text) {
  static const std::regex kPattern("(class|struct) (STRATA_API )?(\\w+)(.*)");
  static const std::regex kForeign("namespace (at|c10|torch)(::\\w+)* \\{");
  Classes result;
  std::istringstream lines(text);
  bool foreign = false;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, kForeign)) foreign = true;
    if (line.starts_with("}")) foreign = false;
    if (foreign) continue;
    if (!line.starts_with("class ") && !line.starts_with("struct ")) continue;
    if (!std::regex_match(line, match, kPattern)) continue;
    (match[4] == ";" ? result.declared : result.defined).insert(match[3]);
  }
  return result;
}

std::string module_of(const std::string& path) {
  const std::string below = path.substr(path.starts_with("include/strata/") ? 15 : 4);
  return below.substr(0, below.find('/'));
}

// Every file of the modules, by its path from the root.
std::map<std::string, std::string> read_sources() {
  const fs::path root = test::source_path();
  std::map<std::string, std::string> sources;
  for (const char* folder : {"include/strata", "src"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const auto extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc" && extension != ".inc") continue;
      sources[fs::relative(entry.path(), root).generic_string()] = read_file(entry.path());
    }
  }
  return sources;
}

const std::map<std::string, std::string>& sources() {
  static const std::map<std::string, std::string> all = read_sources();
  return all;
}

// The modules that define a class of a name.
const std::map<std::string, Names>& modules_of_class() {
  static const std::map<std::string, Names> all = [] {
    std::map<std::string, Names> modules;
    for (const auto& [path, text] : sources()) {
      for (const std::string& name : classes_of(text).defined) {
        modules[name].insert(module_of(path));
      }
    }
    return modules;
  }();
  return all;
}

// Classes that `text` declares and no module of `allowed` defines, but another one.
Names declared_from_above(const std::string& text, const Names& allowed) {
  Names result;
  for (const std::string& name : classes_of(text).declared) {
    const auto found = modules_of_class().find(name);
    if (found == modules_of_class().end()) continue;  // of another library
    const auto is_allowed = [&](const std::string& module) { return allowed.contains(module); };
    if (std::ranges::none_of(found->second, is_allowed)) result.insert(name);
  }
  return result;
}

bool starts_with_any(const std::string& path, std::initializer_list<const char*> prefixes) {
  return std::ranges::any_of(prefixes,
                             [&](const char* prefix) { return path.starts_with(prefix); });
}

// Whether a header of libtorch brings seconds of compiling into each file that includes ours.
bool is_heavy(const std::string& path, bool in_public_header) {
  static const std::set<std::string> kEverything = {
      "ATen/ATen.h",    "ATen/Functions.h", "ATen/NativeFunctions.h",
      "torch/all.h",    "torch/data.h",     "torch/extension.h",
      "torch/script.h", "torch/torch.h",    "torch/types.h"};
  if (kEverything.contains(path) || starts_with_any(path, {"torch/nn"})) return true;
  return in_public_header &&
         (path == "ATen/TensorOperators.h" || path == "torch/library.h" ||
          starts_with_any(path, {"ATen/ops/", "ATen/core/dispatch/", "torch/csrc/autograd/"}));
}

// What is wrong with a file at `path` (from the root) that reads `text`; empty if nothing.
std::vector<std::string> complaints(const std::string& path, const std::string& text) {
  const bool is_public = path.starts_with("include/strata/");
  const std::string module = module_of(path);
  if (module == "strata.h") return {};  // the umbrella header, which includes all
  if (!table().contains(module))
    return {str_cat(path, ": \"", module, "\" is no module of the table")};

  std::vector<std::string> result;
  const auto complain = [&](const Include& include, const char* why) {
    result.push_back(str_cat(path, " includes ", include.path, ": ", why));
  };
  const auto allowed = reachable(module);
  for (const auto& include : includes_of(text)) {
    const bool theirs_public = include.path.starts_with("strata/");
    const std::string rest = theirs_public ? include.path.substr(7) : include.path;
    const std::string target = rest.substr(0, rest.find('/'));
    if (include.quoted || theirs_public) {
      if (rest == "strata.h") {
        complain(include, "the umbrella header is for users");
      } else if (!table().contains(target) || target == rest) {
        complain(include, "write \"strata/<module>/x.h\" or \"<module>/x.h\"");
      } else if (!allowed.contains(target)) {
        complain(include, "no arrow leads there");
      } else if (!theirs_public && is_public) {
        complain(include, "a public header cannot include a private one");
      }
      continue;
    }
    if (table().at(module).without_torch &&
        starts_with_any(include.path, {"torch/", "ATen/", "c10/", "caffe2/"})) {
      complain(include, "this module builds without libtorch");
    }
    if (path.ends_with(".h") && is_heavy(include.path, is_public) &&
        path != "include/strata/runtime/sync_batch_norm.h") {
      complain(include, "too heavy for a header; see CONTRIBUTING.md, \"Headers stay light\"");
    }
    if (starts_with_any(include.path, {"asio", "openssl/", "google/protobuf/"}) &&
        (is_public || (module != "wire" && module != "cluster"))) {
      complain(include, "it stays inside src/wire and src/cluster");
    }
  }
  for (const std::string& name : declared_from_above(text, allowed)) {
    result.push_back(str_cat(path, " declares class ", name, ": no arrow leads to its module"));
  }
  const bool of_others = path.find("/vendor/") != std::string::npos;
  if (path.ends_with(".h") && !of_others && text.find("#pragma once") == std::string::npos) {
    result.push_back(path + ": no #pragma once");
  }
  if (module != "tools" && (text.find("std::cout") != std::string::npos)) {
    result.push_back(path + ": the library does not print; use STRATA_LOG");
  }
  return result;
}

TEST(IncludeArrowsTest, EveryFileKeepsToTheTable) {
  EXPECT_GT(sources().size(), 10u);
  for (const auto& [path, text] : sources()) {
    for (const auto& complaint : complaints(path, text)) ADD_FAILURE() << complaint;
  }
}

TEST(IncludeArrowsTest, TheTableIsRead) {
  EXPECT_EQ(table().at("runtime").may_include,
            (std::set<std::string>{"collective", "tensor", "summary", "graph"}));
  EXPECT_TRUE(table().at("core").may_include.empty());
  EXPECT_TRUE(table().at("wire").without_torch);
  EXPECT_FALSE(table().at("tensor").without_torch);
  EXPECT_TRUE(table().at("tools").may_include.contains("keras"));
}

TEST(IncludeArrowsTest, SeesWhatIsForbidden) {
  const std::pair<const char*, const char*> cases[] = {
      {"include/strata/core/a.h", "#pragma once\n#include \"strata/tensor/arena.h\"\n"},
      {"src/core/a.cc", "#include <ATen/core/Tensor.h>\n"},
      {"src/data/a.cc", "#include \"strata/tensor/arena.h\"\n"},
      {"src/data/a.cc", "  #  include \"optim/a.h\"\n"},
      {"src/collective/a.cc", "#include \"runtime/context.h\"\n"},
      {"src/optim/a.cc", "#include \"strategies/a.h\"\n"},
      {"include/strata/data/a.h", "#pragma once\n#include \"data/shuffle.h\"\n"},
      {"include/strata/data/a.h", "#pragma once\n#include <torch/torch.h>\n"},
      {"include/strata/data/a.h", "#pragma once\n#include <torch/nn/module.h>\n"},
      {"include/strata/data/a.h", "#pragma once\n#include <ATen/ops/zeros.h>\n"},
      {"include/strata/data/a.h", "#pragma once\n#include <ATen/TensorOperators.h>\n"},
      {"src/data/a.h", "#pragma once\n#include <ATen/ATen.h>\n"},
      {"src/data/a.h", "#pragma once\n#include <torch/types.h>\n"},
      {"include/strata/data/a.h", "int x;\n"},
      {"src/data/a.cc", "#include \"strata/strata.h\"\n"},
      {"src/data/a.cc", "#include \"helper.h\"\n"},
      {"src/collective/a.cc", "#include <openssl/ssl.h>\n"},
      {"src/attic/a.cc", "\n"},
      {"src/data/a.cc", "std::cout << 1;\n"},
      {"include/strata/runtime/a.h", "#pragma once\nclass Strategy;\n"},
      {"src/data/a.cc", "namespace strata {\nstruct ReplicaGroupOptions;\n}\n"},
  };
  for (const auto& [path, text] : cases)
    EXPECT_EQ(complaints(path, text).size(), 1u) << path << "\n" << text;
}

TEST(IncludeArrowsTest, LetsPassWhatIsAllowed) {
  const std::pair<const char*, const char*> cases[] = {
      {"src/strategies/a.cc",
       "#include \"strata/core/error.h\"\n#include \"strategies/b.h\"\n#include <vector>\n"},
      {"src/tools/a.cc", "#include \"collective/executor.h\"\nstd::cout << 1;\n"},
      {"include/strata/strata.h", "#pragma once\n#include \"strata/optim/adam.h\"\n"},
      {"src/tensor/a.cc", "#include <torch/torch.h>\n"},
      {"src/strategies/a.h", "#pragma once\nclass ReplicaGroup;\nclass Elsewhere;\n"},
      {"src/data/a.h", "#pragma once\nclass A {\n  struct Strategy;\n};\n"},
      {"src/tensor/a.h", "#pragma once\n#include <ATen/ops/zeros.h>\n"},
      {"include/strata/tensor/a.h", "#pragma once\n#include <ATen/core/Tensor.h>\n"},
      {"include/strata/runtime/sync_batch_norm.h",
       "#pragma once\n#include <torch/nn/modules/batchnorm.h>\n"},
  };
  for (const auto& [path, text] : cases)
    EXPECT_TRUE(complaints(path, text).empty()) << path << "\n" << text;
}

TEST(IncludeArrowsTest, TheUmbrellaHeaderHasEveryPublicHeader) {
  const std::set<std::string> left_out = {// for their weight
                                          "strata/graph/graph.h", "strata/graph/inference.h",
                                          "strata/graph/onnx.h", "strata/graph/saved_graph.h",
                                          "strata/runtime/sync_batch_norm.h"};
  const fs::path folder = fs::path(test::source_path()) / "include";
  std::set<std::string> listed;
  for (const auto& include : includes_of(read_file(folder / "strata/strata.h")))
    listed.insert(include.path);
  std::set<std::string> there;
  for (const auto& entry : fs::recursive_directory_iterator(folder / "strata")) {
    const auto path = fs::relative(entry.path(), folder).generic_string();
    if (path.ends_with(".h") && path != "strata/strata.h" && !left_out.contains(path)) {
      there.insert(path);
    }
  }
  EXPECT_EQ(listed, there) << "make format writes it anew";
}

// CMake lists files by name; one that is forgotten is not installed, or not built.
TEST(IncludeArrowsTest, EveryFileIsListedInItsModulesCMakeLists) {
  const fs::path root = test::source_path();
  for (const char* folder : {"include/strata", "src"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const fs::path& path = entry.path();
      const bool kernels = path.extension() == ".inc";  // listed by stem: strata_kernels()
      const bool counts =
          kernels || path.extension() == (std::string(folder) == "src" ? ".cc" : ".h");
      if (!counts || path.parent_path() == root / folder) continue;
      const auto module = *fs::relative(path, root / folder).begin();
      const std::string listing = read_file(root / "src" / module / "CMakeLists.txt");
      const std::string name = (kernels ? path.stem() : path.filename()).string();
      EXPECT_NE(listing.find(name), std::string::npos)
          << path << " is not in src/" << module.string() << "/CMakeLists.txt";
    }
  }
}

TEST(IncludeArrowsTest, TheReadmeOfTheSourcesHasAParagraphForEveryModuleThatExists) {
  const fs::path root = test::source_path();
  const std::string readme = read_file(root / "src/README.md");
  for (const auto& entry : fs::directory_iterator(root / "src")) {
    if (!entry.is_directory()) continue;
    const auto name = entry.path().filename().string();
    EXPECT_NE(readme.find(str_cat("`", name, "`")), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace strata
