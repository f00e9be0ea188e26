#pragma once

#include "gpu/fake_nccl/transport.h"

namespace strata::test::fake_nccl {

/// Tells all ranks of a collective and waits until all have told the same: no data move before.
/// @return What each rank has announced, by rank.
/// @throws Failure  ncclInvalidUsage: ranks differ, or one waits for a send or a receive of this rank. Stopped, Broken.
std::vector<Announcement> agree(Transport& transport, const Announcement& own);

/// Runs a collective on rings: rank r sends to r + 1. Part p of a sum begins at rank p, so each part has an order
/// of its own, as in NCCL. The addresses are the host's.
/// @throws As agree.
void run_collective(Transport& transport, const Operation& operation);

}  // namespace strata::test::fake_nccl
