// How little a LibTorch program changes: before.cc and after.cc of examples 05 and 10 are compared,
// and the diff that the documents show must be theirs.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "support/source_path.h"

namespace strata {
namespace {

using Lines = std::vector<std::string>;

Lines read_lines(const std::string& path) {
  std::ifstream file(test::source_path(path));
  EXPECT_TRUE(file) << path;
  Lines lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// The lines that a longest common subsequence leaves out: "-" of `before`, "+" of `after`, in
/// order.
Lines difference(const Lines& before, const Lines& after) {
  const size_t n = before.size();
  const size_t m = after.size();
  std::vector<std::vector<int>> common(n + 1, std::vector<int>(m + 1, 0));
  for (size_t i = n; i-- > 0;) {
    for (size_t j = m; j-- > 0;) {
      common[i][j] = before[i] == after[j] ? common[i + 1][j + 1] + 1
                                           : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  Lines changes;
  size_t i = 0;
  size_t j = 0;
  while (i < n || j < m) {
    if (i < n && j < m && before[i] == after[j]) {
      ++i;
      ++j;
    } else if (i < n && (j == m || common[i + 1][j] >= common[i][j + 1])) {
      changes.push_back("-" + before[i++]);
    } else {
      changes.push_back("+" + after[j++]);
    }
  }
  return changes;
}

int64_t count(const Lines& changes, char sign) {
  return std::count_if(changes.begin(), changes.end(),
                       [&](const auto& line) { return line[0] == sign; });
}

void expect_at_most(int64_t lines, const std::string& example, const std::string& document) {
  const Lines changes = difference(read_lines("examples/" + example + "/before.cc"),
                                   read_lines("examples/" + example + "/after.cc"));
  EXPECT_GT(count(changes, '+'), 0);
  EXPECT_LE(count(changes, '+'), lines);
  EXPECT_LE(count(changes, '-'), lines);

  Lines shown;
  bool inside = false;
  for (const std::string& line : read_lines(document)) {
    if (line == "```diff") {
      inside = true;
    } else if (line == "```") {
      inside = false;
    } else if (inside && !line.empty() && (line[0] == '+' || line[0] == '-')) {
      shown.push_back(line);
    }
  }
  EXPECT_EQ(shown, changes);
}

TEST(LibtorchDiffTest, AtMostFiveLinesChange) {
  expect_at_most(5, "05_libtorch_mnist", "docs/custom_loops.md");
}

TEST(LibtorchDiffTest, AtMostThreeLinesChangeForSeveralProcesses) {
  expect_at_most(3, "10_distributed_data_parallel", "docs/multi_worker.md");
}

}  // namespace
}  // namespace strata
