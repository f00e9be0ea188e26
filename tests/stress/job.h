#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "multi_worker/reports.h"
#include "support/killed_program.h"

namespace strata::test {

/// How often a random case is tried: so many in `make test`, and what the variable says in a soak.
inline int tries(const char* variable, int few) {
  const char* const many = std::getenv(variable);
  return many == nullptr ? few : std::atoi(many);
}

/// Of the random choices; STRATA_SOAK_SEED repeats a run's.
inline unsigned chosen_seed(unsigned usual) {
  const char* const seed = std::getenv("STRATA_SOAK_SEED");
  return seed == nullptr ? usual : static_cast<unsigned>(std::atol(seed));
}

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
