#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "support/killed_program.h"

namespace strata::test {

/// The lines of a report: digests and accuracy.
inline std::string report_of(const std::string& output) {
  std::istringstream lines(output);
  std::string report;
  for (std::string line; std::getline(lines, line);) {
    for (const char* what : {"sha256 ", "accuracy ", "files "}) {
      if (line.starts_with(what)) report += line + "\n";
    }
  }
  return report;
}

inline std::string one_process(const std::string& mode) {
  const Outcome outcome = run_program(STRATA_MULTI_WORKER_TRAINER, {mode, "8"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  return report_of(outcome.output);
}

}  // namespace strata::test
