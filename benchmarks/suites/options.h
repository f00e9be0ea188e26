#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace strata::bench {

struct BenchOptions {
  std::vector<std::string> cases;    ///< Empty: all.
  std::vector<std::string> systems;  ///< Empty: all.
  std::vector<int> batches;          ///< Of suite step's models, a replica; empty: each case's own.
  bool zeros = true;                 ///< Suite step: pixels that are zero, as MNIST's.
  int pairs = 15;                    ///< Interleaved samples of each pair that is compared.
  double seconds = 0;                ///< Of one sample; 0: the suite's default.
  double seconds_or(double usual) const { return seconds > 0 ? seconds : usual; }
  bool cpu_clock = false;             ///< Rates per CPU second: a look on a machine that is busy.
  bool quick = false;                 ///< Suite models: small images, to see that it runs.
  std::filesystem::path peers_dir;    ///< Python environments torch, tf, jax.
  std::filesystem::path scripts_dir;  ///< benchmarks/peers
  std::filesystem::path command;      ///< This program, to start workers with.
  std::vector<std::string> against;   ///< The program of another build, with what precedes a
                                      ///< worker's name in its arguments; empty: none.

  /// The command line of a worker: of this build, or of the other one.
  enum class Build { kThis, kOther };
  std::vector<std::string> worker(Build build, std::vector<std::string> arguments) const {
    std::vector<std::string> line =
        build == Build::kOther ? against : std::vector<std::string>{command};
    line.insert(line.end(), arguments.begin(), arguments.end());
    return line;
  }
};

int run_step_suite(const BenchOptions& options);
int run_reduce_suite(const BenchOptions& options);
int run_attention_suite(const BenchOptions& options);
int run_checkpoint_suite(const BenchOptions& options);
int run_data_suite(const BenchOptions& options);
int run_models_suite(const BenchOptions& options);
int run_collective_suite(const BenchOptions& options);
int run_network_suite(const BenchOptions& options);
int run_gpu_suite(const BenchOptions& options);
int run_estimator_suite(const BenchOptions& options);

/// `strata bench worker --case C --data FILE --replicas N`: the strata side of suites step and
/// models, on a pipe.
int run_worker(const std::vector<std::string>& arguments);

/// `strata bench data-worker --case C --data FOLDER`: the same of suite data.
int run_data_worker(const std::vector<std::string>& arguments);

}  // namespace strata::bench
