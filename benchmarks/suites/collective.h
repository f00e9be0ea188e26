#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "suites/calls.h"
#include "suites/options.h"
#include "suites/process.h"
#include "suites/stats.h"
#include "tools/launch/port_reservation.h"

namespace strata::bench {

constexpr int64_t kMostCallBytes = int64_t{64} << 20;  ///< of a rank's tensor

/// Where the ranks of a system run. Rank r is on `hosts[r]`.
struct RankHost {
  std::string address = "127.0.0.1";
  std::vector<std::string> enter = {};  ///< command that starts others in the host's network
  std::vector<int> cpus = {};
};

/// The processes of one system of suites collective and network.
class CollectiveSystems {
 public:
  /// @param shared  All ranks are on one host, and may share its memory.
  CollectiveSystems(const BenchOptions& options, std::vector<RankHost> hosts, bool shared,
                    std::filesystem::path folder);
  ~CollectiveSystems();
  CollectiveSystems(const CollectiveSystems&) = delete;
  CollectiveSystems& operator=(const CollectiveSystems&) = delete;

  /// What AUTO picks from for an all-reduce in fixed order.
  std::vector<std::string> algorithms() const;

  // Each starts its processes. A system that cannot be started has its reason in `missing`.
  /// @param backend  "memory" or "wire".
  CallSystem strata(const std::string& backend);
  /// The same of options.against.
  CallSystem other(const std::string& backend);
  CallSystem gloo();
  CallSystem mpi_memory();
  CallSystem mpi_tcp();
  CallSystem floor();

 private:
  CallSystem start(const std::string& name, const std::string& missing,
                   const std::vector<ProcessSpec>& processes);
  std::vector<ProcessSpec> strata_processes(const std::string& backend,
                                            BenchOptions::Build build = BenchOptions::Build::kThis);
  CallSystem mpi(const std::string& name, const std::vector<std::string>& transport);
  ProcessSpec on(size_t rank, std::vector<std::string> argv) const;
  std::string mpi_program() const;

  const BenchOptions& options_;
  const std::vector<RankHost> hosts_;
  const bool shared_;
  const std::filesystem::path folder_;
  std::deque<tools::PortReservation> ports_;  // of each system that listens on this host
  int memory_fd_ = -1;
  int started_ = 0;
};

/// `strata bench collective-worker`: a rank of strata, or of the floor, on a pipe.
int run_collective_worker(const std::vector<std::string>& arguments);

}  // namespace strata::bench
