#pragma once

#include <optional>
#include <string>

#include "strata/cluster/cluster_resolver.h"
#include "strata/cluster/environment.h"

namespace strata::cluster {

struct MpiOptions {
  /// `host` or `host:port` of rank 0, known to all. Left out: STRATA_LEADER; else 127.0.0.1 where
  /// every rank is on this host; else the first node of SLURM_JOB_NODELIST.
  std::optional<std::string> leader = {};
  int port_base = 8888;                         ///< of rank 0, if `leader` does not say
  std::optional<Environment> environment = {};  ///< instead of the process's
};

/// One worker a rank of `mpirun` or `mpiexec`, without MPI itself: Open MPI's OMPI_COMM_WORLD_RANK
/// and so on, else PMI_RANK and PMI_SIZE (MPICH, Intel MPI, and srun). MPI's variables do not say
/// where ranks are: rank 0's address is given, and the others let the system pick a port on the
/// interface that leads there (address `:0`), which rank 0 then tells everyone.
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
