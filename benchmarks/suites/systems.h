#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "suites/options.h"
#include "suites/process.h"

namespace strata::bench {

/// One way to run a system. Where a system has several, the fastest counts.
struct Variant {
  std::string name;
  std::vector<ProcessSpec> processes;  ///< Started together; all are told the same.
};

struct SystemSpec {
  std::string name;
  double items = 1;  ///< In a step of the whole system.
  std::vector<Variant> variants;
  std::string missing;  ///< Why it cannot be started here; empty if it can.
  /// The system that runs as fast as this one could at most, on as many cores; empty: none is
  /// known.
  std::string limit = {};
};

/// Two cores of those that this process may use. @throws Error kFailedPrecondition: there is one.
std::vector<int> two_cores();

/// The variable TF_CONFIG of worker `index` of those at `addresses`.
std::pair<std::string, std::string> worker_role(const std::vector<std::string>& addresses,
                                                size_t index);

/// The Python programs of benchmarks/peers.
class PythonPeers {
 public:
  /// @param common  Arguments that every program gets.
  PythonPeers(const BenchOptions& options, std::vector<std::string> common)
      : options_(options), common_(std::move(common)) {}

  /// `script` in `environment` (torch, tf, jax), bound to `cpus`.
  ProcessSpec process(const std::string& environment, const std::string& script,
                      const std::vector<std::string>& more, const std::vector<int>& cpus) const;

  /// Why it cannot be started; empty if it can.
  std::string missing(const std::string& environment, const std::string& script) const;

 private:
  const BenchOptions& options_;
  std::vector<std::string> common_;
};

/// A started variant of a system.
class RunningSystem {
 public:
  /// Starts and warms it up. @param logs  Folder for its processes' standard error.
  /// @throws Error  it does not start, with the reason.
  RunningSystem(const SystemSpec& spec, const Variant& variant, const std::filesystem::path& logs);
  ~RunningSystem();

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

  /// Cores that it was given: those of all its processes' affinity masks.
  size_t cores() const { return cores_; }

  double cpu_seconds() const;

  /// Resident memory of all its processes, in bytes; pages that they share count in each.
  BenchProcess::Memory memory() const;
  void reset_peak_memory() const;

 private:
  std::vector<std::unique_ptr<BenchProcess>> processes_;
  size_t cores_ = 0;
  long steps_ = 1;
};

}  // namespace strata::bench
