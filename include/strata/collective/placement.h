#pragma once

#include <string>
#include <vector>

#include "strata/core/export.h"

namespace strata::collective {

/// The ranks and hosts of a job's replicas. Ranks are processes; a replica belongs to one rank, a
/// rank to one host. Any assignment is allowed: uneven ones, scattered ids (after a rank was lost
/// and others took its replicas over), ranks without replicas.
struct STRATA_API Placement {
  std::vector<int> rank_of_replica;  ///< by replica id
  std::vector<int> host_of_rank;     ///< any numbers; ranks with equal ones share memory

  /// Assigns consecutive ids: {3, 3, 2} puts replicas 0-2 on rank 0, 3-5 on rank 1, 6 and 7 on rank
  /// 2.
  /// @param ranks_per_host  This many consecutive ranks share a host.
  static Placement blocks(const std::vector<int>& replicas_per_rank, int ranks_per_host = 1);

  int num_ranks() const { return static_cast<int>(host_of_rank.size()); }
  int num_replicas() const { return static_cast<int>(rank_of_replica.size()); }
  /// Returns a rank's replicas, ascending. The i-th is slot 1 + i of the rank's schedule.
  std::vector<int> replicas_of(int rank) const;
  bool on_one_host() const;

  /// @throws Error kInvalidArgument: no rank, no replica, a replica on a rank that does not exist.
  void check() const;

  friend bool operator==(const Placement&, const Placement&) = default;
};

/// Numbers hosts for Placement::host_of_rank: equal identities get equal numbers, from 0 in the
/// order of ranks.
/// @param identities  wire::host_identity() by rank, which each process makes and sends to the
/// others.
STRATA_API std::vector<int> hosts_of(const std::vector<std::string>& identities);

}  // namespace strata::collective
