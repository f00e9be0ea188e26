#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "suites/options.h"
#include "suites/systems.h"

namespace strata::bench {

/// A comparison: the speed of `tested` over that of `baseline`.
struct Ratio {
  std::string metric;
  std::string tested;
  std::string baseline;
};

struct BenchCase {
  std::string suite;
  std::string name;
  std::string items;  ///< What a step makes, "images"; empty: microseconds of a step are measured.
  std::vector<SystemSpec> systems;
  std::vector<Ratio> ratios;
  std::vector<int> cores = {};  ///< Two whose distance is measured; empty: it does not matter.
};

/// A folder for data files and logs, removed at the end.
class BenchWorkspace {
 public:
  BenchWorkspace();
  ~BenchWorkspace();
  BenchWorkspace(const BenchWorkspace&) = delete;
  BenchWorkspace& operator=(const BenchWorkspace&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Those of `known` that the options ask for. @throws Error kInvalidArgument: an unknown one.
std::vector<std::string> chosen_cases(const BenchOptions& options, const std::string& suite,
                                      const std::vector<std::string>& known);

/// Measures one case and prints its JSON lines. All systems are started first and stay warm; then,
/// in each round, each ratio's two systems run a sample right after one another while all others
/// wait on a pipe. A ratio is the median over the rounds of such neighbours, so drifts of the
/// machine cancel out.
/// @param logs  Folder for the systems' standard error.
void run_interleaved(const BenchOptions& options, const BenchCase& bench_case,
                     const std::filesystem::path& logs);

}  // namespace strata::bench
