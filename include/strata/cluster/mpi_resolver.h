#pragma once

#include <optional>
#include <string>

#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/environment.h"

namespace strata::cluster {

struct MpiOptions {
  /// Rank 0's `host` or `host:port`, the same on all ranks. Default: STRATA_LEADER; else 127.0.0.1
  /// where every rank is on this host; else the first node of SLURM_JOB_NODELIST.
  std::optional<std::string> leader = {};
  int port_base = 8888;                         ///< port of rank 0, unless `leader` has one
  std::optional<Environment> environment = {};  ///< default: the process's
};

/// A cluster with one worker for each rank of `mpirun` or `mpiexec`. It does not use MPI itself: it
/// reads Open MPI's OMPI_COMM_WORLD_RANK and so on, else PMI_RANK and PMI_SIZE (MPICH, Intel MPI,
/// and srun). MPI's variables do not contain the hosts of ranks: rank 0's address is given, and the
/// others let the system pick a port on the interface that leads to it (address `:0`), which rank 0
/// then announces to all.
/// @throws Error (from `resolve`)  kInvalidArgument: no such variables, several hosts and no
/// leader.
class STRATA_API MpiResolver final : public ClusterResolver {
 public:
  explicit MpiResolver(MpiOptions options = {});

 private:
  Resolution do_resolve() const override;

  MpiOptions options_;
};

}  // namespace strata::cluster
