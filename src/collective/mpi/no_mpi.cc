// In place of mpi_*.cc where MPI is missing.
#include "collective/mpi/mpi_communicator.h"

namespace strata::collective {

bool has_mpi_communicator() { return false; }

std::shared_ptr<Communicator> make_mpi_communicator(std::shared_ptr<Communicator>,
                                                    const MpiOptions&) {
  strata::detail::throw_error(ErrorCode::kUnimplemented,
                              "[collective] make_mpi_communicator: this build has no MPI; install "
                              "it (Debian: libopenmpi-dev openmpi-bin) and build again");
}

}  // namespace strata::collective
