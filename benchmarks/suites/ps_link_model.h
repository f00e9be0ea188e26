#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "suites/netns_testbed.h"
#include "suites/process.h"

namespace strata::bench {

/// What workers and parameter servers do on shaped lines.
struct PsTraining {
  std::string consistency = "asynchronous";  ///< Or "synchronous", or "backups": of one worker.
  int64_t bytes = 0;   ///< Of the model: what a step pushes, and what it pulls.
  double compute = 0;  ///< Seconds that a worker waits in each step, as if it computed.
  double slow = 1;     ///< The last worker waits so many times as long.
  double seconds = 0;  ///< How long workers begin steps.
};

/// Workers and parameter servers of strata on hosts of their own, float32 and SGD; the parameters
/// are cut into equal parts, one a server.
///
/// **The law.** In each step every worker pushes S bytes and pulls S bytes. With w workers and p
/// servers whose lines carry B bytes a second each way, a step of all workers brings w S / p bytes
/// to a server, and takes as many from it. Where pushes and pulls do not overlap that is
/// 2 w S / (p B), or 2 S / (p B) for each update of the table. If both ways were busy all the time
/// it would be half of that, and no step can be shorter.
/// Source: the bytes of a parameter server's incast; Li et al., Scaling Distributed Machine
/// Learning with the Parameter Server (2014).
class PsLinkModel {
 public:
  struct Hosts {
    int workers = 4;
    int servers = 4;
    double worker_bits_per_second = 1e8;
    double server_bits_per_second = 1e8;
  };

  /// Starts the processes.
  /// @param command  The program `strata`. @param logs  Folder for their standard error.
  /// @throws Error  As NetworkTestbed's. kUnavailable: a process does not start.
  PsLinkModel(const std::filesystem::path& command, const Hosts& hosts,
              const std::filesystem::path& logs);

  /// Another line for a worker.
  void shape(int worker, double bits_per_second);

  /// @return seconds a step, by worker: of the time in which all but the last were training. 0 of
  ///   a last one that has ended no two steps in it.
  /// @throws Error  kUnavailable: a process ended, with what it said, or another worker has ended
  ///   no two steps; train for longer. kDeadlineExceeded.
  std::vector<double> run(const PsTraining& training);

  /// Seconds of a step by the law; `shortest` of one that keeps both ways busy.
  double law(int64_t bytes) const { return 2 * shortest(bytes); }
  double shortest(int64_t bytes) const;

 private:
  const Hosts hosts_;
  NetworkTestbed testbed_;
  std::vector<std::unique_ptr<BenchProcess>> servers_;
  std::vector<std::unique_ptr<BenchProcess>> workers_;  // they go first
};

/// Seconds a step of the first so many workers: of their rates' mean.
double step_of(const std::vector<double>& seconds, int workers);

}  // namespace strata::bench
