#pragma once

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/thread.h"
#include "strata/core/error.h"
#include "support/temp_folder.h"
#include "tools/launch/supervisor.h"

namespace strata::tools {

/// Waits, at most half a minute, until `done()`: for what other processes do and nobody tells.
template <typename Done>
bool eventually(Done&& done) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!done()) {
    if (std::chrono::steady_clock::now() > until) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

inline std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A process that is gone, or has ended and waits for nobody but init.
inline bool is_gone(pid_t pid) {
  const std::string status = text_of(str_cat("/proc/", pid, "/status"));
  return status.empty() || contains(status, "State:\tZ");
}

/// The processes, other than this one, that have `variable` ("D=/tmp/x") in their environment.
inline std::vector<pid_t> processes_with(const std::string& variable) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t pid = std::atoi(name.c_str());
    const std::string environment = std::string(1, '\0') + text_of("/proc/" + name + "/environ");
    const bool has = contains(environment, std::string(1, '\0') + variable + std::string(1, '\0'));
    if (has && pid != ::getpid() && !is_gone(pid)) found.push_back(pid);
  }
  return found;
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace strata::tools
