// What the mpi back end says where there is no MPI, or no sense in its options.
#include <gtest/gtest.h>

#include "collective/mpi/mpi_communicator.h"
#include "support/expect_error.h"

namespace strata::collective {
namespace {

TEST(MpiOptionsTest, AreChecked) {
  const auto make = [] { make_mpi_communicator(nullptr, {.small_bytes = -1}); };
  if (!has_mpi_communicator()) {
    return expect_error(make, ErrorCode::kUnimplemented,
                        "[collective] make_mpi_communicator: this build has no MPI; install it "
                        "(Debian: libopenmpi-dev openmpi-bin) and build again");
  }
  expect_error(make, ErrorCode::kInvalidArgument,
               "[collective] MPI: got small_bytes -1 and piece_bytes 4194304; expected up to "
               "1073741824");
  expect_error([] { make_mpi_communicator(nullptr, {.piece_bytes = 0}); },
               ErrorCode::kInvalidArgument,
               "[collective] MPI: got small_bytes 32768 and piece_bytes 0; expected up to "
               "1073741824");
}

}  // namespace
}  // namespace strata::collective
