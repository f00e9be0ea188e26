#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "strata/cluster/cluster_spec.h"
#include "suites/calls.h"
#include "suites/options.h"
#include "suites/process.h"
#include "suites/systems.h"
#include "tools/launch/port_reservation.h"

namespace strata::bench {

// What case `rows` pulls and pushes.
constexpr int64_t kPsRows = 2000000;     ///< of the table
constexpr int64_t kPsWidth = 16;         ///< float32
constexpr int64_t kPsRowsACall = 65536;  ///< random ones

/// The processes of suite ps: one worker on the first core, `servers` servers on the second.
class PsSystems {
 public:
  PsSystems(const BenchOptions& options, int servers, std::filesystem::path folder);

  // Each starts its processes. A system that cannot be started has its reason in `missing`.
  CallSystem strata();
  /// Without the host's memory: all goes through sockets.
  CallSystem strata_by_wire();
  /// Both of the build options.against.
  CallSystem other();
  CallSystem other_by_wire();
  /// @param wire  "any": what torch picks on one host, its memory; "tcp".
  CallSystem rpc(const std::string& name, const std::string& wire);
  CallSystem tensorflow();
  /// As many bytes to the servers' processes and back, without parameter servers: through the
  /// host's memory, and through sockets.
  CallSystem copy();
  CallSystem copy_by_wire();

 private:
  CallSystem start(const std::string& name, const std::string& missing,
                   const std::vector<ProcessSpec>& processes,
                   BetweenCalls between = BetweenCalls::kSleep);
  /// The worker's command first: it ends first.
  std::vector<ProcessSpec> strata_processes(const std::string& worker_role,
                                            const std::string& server_role,
                                            BenchOptions::Build build = BenchOptions::Build::kThis);

  const BenchOptions& options_;
  const int servers_;
  const std::filesystem::path folder_;
  const std::vector<int> cpus_;
  std::deque<tools::PortReservation> ports_;  // of each system
};

constexpr int kPsMnistPorts = 12;  ///< of mnist's systems

/// Cases `mnist...`: two workers, a core each, and a server, which runs on whichever is free; beside
/// them as many processes that share nothing.
/// @param cluster  As `strata bench worker` has it: "servers", "servers-ahead", "servers-in-step".
/// @param ports  kPsMnistPorts of them.
std::vector<SystemSpec> ps_mnist_systems(const BenchOptions& options, const std::string& cluster,
                                         const std::filesystem::path& data,
                                         const tools::PortReservation& ports);

int run_ps_suite(const BenchOptions& options);

struct PsWorkerOptions {
  std::string role;
  int task = 0;
  std::vector<std::string> workers;  ///< addresses
  std::vector<std::string> servers;
};

/// An end of a plain copy: through sockets, or through the host's memory.
int run_ps_copy(const PsWorkerOptions& options);
int run_ps_memory_copy(const PsWorkerOptions& options);

/// Cases `ps/...` of suite network. @param names  Which of `ps_lines_cases`.
void run_ps_lines_cases(const BenchOptions& options, const std::vector<std::string>& names);
std::vector<std::string> ps_lines_cases();

/// A worker of PsLinkModel: answers `train CONSISTENCY BYTES COMPUTE SECONDS` with the times at which
/// its steps ended, the first of them when it was ready to begin.
void serve_ps_training(const cluster::ClusterSpec& spec, const cluster::TaskId& self);

/// `strata bench ps-worker`: a process of strata, or of the copy, on a pipe.
int run_ps_worker(const std::vector<std::string>& arguments);

}  // namespace strata::bench
