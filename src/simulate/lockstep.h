#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strata/collective/algorithms.h"
#include "strata/collective/schedule.h"

namespace strata::simulate {

/// Schedules of identical ranks. Where every rank does what rank 0 does, with other peers, and all
/// lines are equal, one rank is simulated for all: what it sends to a peer arrives, at the same
/// time, from the peer that is as far away in the other direction. These are rank 0's steps of the
/// schedules that `collective::Algorithms` makes for workers with one host each, which tests
/// compare; a whole schedule of 10,000 ranks would have 200 million.

/// @param algorithm "ring", "direct", "halving_doubling" or "recursive_doubling", of an all-reduce.
/// @param replicas  Of each rank: one, or a power of two.
/// @return nothing where rank 0's steps are not every rank's: another algorithm, halving or
///   doubling of
///         no power of two, recursive doubling of several replicas a rank.
std::optional<collective::Schedule> steps_of_one_rank(const std::string& algorithm, int num_ranks,
                                                      int replicas);

/// Which peer's message comes when rank 0 has sent one to `peer`.
int mirrored_peer(const collective::Schedule& schedule, int peer, int num_ranks);

}  // namespace strata::simulate
