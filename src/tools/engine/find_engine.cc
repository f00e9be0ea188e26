#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <system_error>

#include "strata/core/str_cat.h"
#include "tools/engine/engine.h"

namespace strata::tools {

namespace fs = std::filesystem;

namespace {

std::string variable(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): a command with one thread
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The folder of the package torch of the python3 in PATH; "" if it does not exist. find_spec does
// not run torch's own code.
std::string torch_of_python() {
  constexpr const char* kCommand =
      "python3 -c \"import importlib.util as u; s = u.find_spec('torch'); "
      "print(list(s.submodule_search_locations)[0] if s else '')\" 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(kCommand, "r"), ::pclose);
  std::string line;
  for (int c = pipe ? std::fgetc(pipe.get()) : EOF; c != EOF && c != '\n';
       c = std::fgetc(pipe.get())) {
    line += static_cast<char>(c);
  }
  return line;
}

// The engines that scripts/install_engine.sh has put into the cache, the newest version first.
std::vector<fs::path> cached_engines(bool cuda) {
  const std::string cache = variable("XDG_CACHE_HOME");
  const fs::path folder =
      (cache.empty() ? fs::path(variable("HOME")) / ".cache" : fs::path(cache)) / "strata/engine";
  std::vector<fs::path> found;
  std::error_code none;  // no such folder: nothing is found
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("torch-") && name.ends_with("-cuda") == cuda)
      found.push_back(entry.path());
  }
  const auto numbers = [](const fs::path& path) {
    std::array<int, 3> parts{};
    (void)std::sscanf(path.filename().c_str(), "torch-%d.%d.%d", parts.data(), &parts[1],
                      &parts[2]);
    return parts;
  };
  std::ranges::sort(found,
                    [&](const fs::path& a, const fs::path& b) { return numbers(a) > numbers(b); });
  return found;
}

// From the header that says TORCH_VERSION_MAJOR and so on; "" if it does not exist.
std::string version_of(const fs::path& root) {
  for (const char* header :
       {"include/torch/headeronly/version.h", "include/torch/csrc/api/include/torch/version.h"}) {
    std::ifstream file(root / header);
    std::string version;
    for (std::string line; std::getline(file, line);) {
      std::array<char, 8> part{};
      int number = 0;
      if (std::sscanf(line.c_str(), "#define TORCH_VERSION_%7[A-Z] %d", part.data(), &number) == 2)
        version += (version.empty() ? "" : ".") + std::to_string(number);
    }
    if (!version.empty()) return version;
  }
  return "";
}

}  // namespace

std::optional<Engine> engine_in(fs::path folder, const std::string& series, bool cuda,
                                std::string& why) {
  std::error_code ignored;
  if (fs::exists(folder / "torch/lib", ignored)) folder /= "torch";
  std::vector<const char*> files = {"lib/libtorch_cpu.so", "lib/libc10.so", "include/ATen/ATen.h"};
  if (cuda) files.insert(files.end(), {"lib/libtorch_cuda.so", "lib/libc10_cuda.so"});
  for (const char* file : files) {
    if (fs::exists(folder / file, ignored)) continue;
    why = str_cat(folder.string(), " has no ", file);
    return std::nullopt;
  }
  const std::string version = version_of(folder);
  if (!series.empty() && !version.starts_with(series + ".")) {
    why =
        str_cat(folder.string(), " is torch ", version.empty() ? "of an unknown version" : version,
                "; this strata was built with ", series);
    return std::nullopt;
  }
  return Engine{.root = fs::canonical(folder), .version = version};
}

std::optional<Engine> find_engine(const std::string& series, std::vector<std::string>& rejected,
                                  bool cuda) {
  std::vector<fs::path> candidates;
  if (const std::string root = variable("TORCH_ROOT"); !root.empty()) {
    candidates = {root};
  } else {
    if (const std::string python = torch_of_python(); !python.empty()) candidates = {python};
    std::ranges::copy(cached_engines(cuda), std::back_inserter(candidates));
  }
  for (const fs::path& candidate : candidates) {
    std::string why;
    if (auto engine = engine_in(candidate, series, cuda, why)) return engine;
    rejected.push_back(why);
  }
  return std::nullopt;
}

std::string engine_series() { return STRATA_TORCH_SERIES; }

}  // namespace strata::tools
