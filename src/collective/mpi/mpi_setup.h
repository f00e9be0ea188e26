#pragma once

#include <mpi.h>

#include <functional>
#include <string>
#include <vector>

#include "collective/communicator.h"
#include "collective/mpi/mpi_communicator.h"

namespace strata::collective {

/// MPI's communicators for the ranks of a strategy, numbered as they are.
struct MpiGroup {
  MPI_Comm messages = MPI_COMM_NULL;  ///< for messages with tags
  MPI_Comm data = MPI_COMM_NULL;      ///< for collectives, in one order on all ranks
  int largest_tag = 32767;
  std::vector<std::string> names;  ///< by rank
};

/// @throws Error, the same on all ranks, as make_mpi_communicator.
MpiGroup set_up_mpi(Communicator& bootstrap, const MpiOptions& options);

/// Gives the communicators back, where MPI still works.
void free_mpi(MpiGroup& group);

}  // namespace strata::collective
