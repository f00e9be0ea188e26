#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <set>
#include <string>

#include "support/source_path.h"

namespace {

// `<Suite>.<Test>` or `<Suite>.*` lines; `#` starts a comment.
std::set<std::string> allowed_skips() {
  std::set<std::string> names;
  std::ifstream file(strata::test::source_path("tests/skips_allowed.txt"));
  for (std::string line; std::getline(file, line);) {
    line.erase(std::min(line.find('#'), line.size()));
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
    if (!line.empty()) names.insert(line);
  }
  return names;
}

/// What CTest calls "Skipped" (SKIP_RETURN_CODE in cmake/DiscoverTestSuites.cmake).
constexpr int kSkipped = 77;

std::string why_skipped(const testing::TestResult& result) {
  for (int i = 0; i < result.total_part_count(); ++i) {
    if (result.GetTestPartResult(i).skipped()) return result.GetTestPartResult(i).message();
  }
  return "";
}

}  // namespace

// A skip is not a pass: CTest would call a run of skipped tests a success.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int status = RUN_ALL_TESTS();
  const auto allowed = allowed_skips();
  const auto& unit = *testing::UnitTest::GetInstance();
  if (status == 0 && unit.test_to_run_count() > 0 &&
      unit.skipped_test_count() == unit.test_to_run_count()) {
    status = kSkipped;
  }
  for (int s = 0; s < unit.total_test_suite_count(); ++s) {
    const auto& suite = *unit.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const auto& test = *suite.GetTestInfo(t);
      if (!test.should_run() || !test.result()->Skipped()) continue;
      const std::string prefix = std::string(suite.name()) + ".";
      const std::string name = prefix + test.name();
      if (allowed.contains(name) || allowed.contains(prefix + "*")) {
        std::cerr << "[strata] skipped " << name << ": " << why_skipped(*test.result()) << "\n";
        continue;
      }
      std::cerr << "[strata] " << name
                << " was skipped, and tests/skips_allowed.txt does not list it\n";
      status = 1;
    }
  }
  return status;
}
