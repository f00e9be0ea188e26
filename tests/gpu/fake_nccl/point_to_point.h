#pragma once

#include "gpu/fake_nccl/transport.h"

namespace strata::test::fake_nccl {

/// Runs the sends and receives of one group, which progress together. Between two ranks the n-th send is for the n-th receive, and
/// its data move when both have been posted. The addresses are the host's.
/// @throws Failure  ncclInvalidUsage: counts or types differ, or two ranks wait for each other for ever. Stopped, Broken.
void run_point_to_point(Transport& transport, const std::vector<Operation>& operations);

}  // namespace strata::test::fake_nccl
