#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tools/bench_options.h"
#include "tools/bench_process.h"

namespace strata::tools {

/// One way to run a system. Where a system has several, the fastest counts.
struct Variant {
  std::string name;
  std::vector<ProcessSpec> processes;  ///< Started together; all are told the same.
};

struct SystemSpec {
  std::string name;
  int replicas = 1;  ///< Batches of 64 in a step of the whole system.
  std::vector<Variant> variants;
  std::string missing;  ///< Why it cannot be started here; empty if it can.
};

/// Every system of suite step for one case, strata's own included.
/// @param data  The file with the case's batches.
/// @param cpus  Two cores: the second one for systems of one core.
std::vector<SystemSpec> step_systems(const BenchOptions& options, const std::string& case_name,
                                     const std::filesystem::path& data,
                                     const std::vector<int>& cpus);

/// A started variant of a system.
class RunningSystem {
 public:
  /// Starts and warms it up. @param logs  Folder for its processes' standard error.
  /// @throws Error  it does not start, with the reason.
  RunningSystem(const SystemSpec& spec, const Variant& variant, const std::filesystem::path& logs);

  /// Runs `steps` steps on all its processes. @return seconds until the last one was done.
  double run(long steps);

  /// Finds how many steps take about `seconds`, to be used by `sample`.
  void calibrate(double seconds);
  struct Sample {
    double steps_per_second = 0;      ///< By the clock on the wall.
    double steps_per_cpu_second = 0;  ///< By the mean of its processes' CPU time.
  };
  Sample sample();
  long steps_per_sample() const { return steps_; }

  double cpu_seconds() const;

 private:
  std::vector<std::unique_ptr<BenchProcess>> processes_;
  long steps_ = 1;
};

}  // namespace strata::tools
