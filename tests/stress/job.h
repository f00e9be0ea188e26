#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "multi_worker/reports.h"
#include "support/killed_program.h"

namespace strata::test {

/// Runs a shell command with its arguments "$@", and these variables.
inline Outcome run_in_shell(const std::string& script, const std::vector<std::string>& arguments,
                            const std::map<std::string, std::string>& environment = {}) {
  std::vector<std::string> words = {"-c", "exec /usr/bin/env \"$@\" 2>&1", "sh"};
  for (const auto& [name, value] : environment) words.push_back(name + "=" + value);
  words.insert(words.end(), {"/bin/sh", "-c", script, "sh"});
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_program("/bin/sh", words);
}

/// What a training of `mode` ends with where nothing disturbs it; see reports.h.
inline const std::string& undisturbed(const std::string& mode) {
  static std::map<std::string, std::string> known;
  std::string& report = known[mode];
  if (report.empty()) report = one_process(mode);
  return report;
}

}  // namespace strata::test
