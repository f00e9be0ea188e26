#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective/algorithms/local_subtrees.h"
#include "collective/collective_call.h"
#include "collective/mpi/mpi_requests.h"

namespace strata::collective {

/// Memory that MPI works on while a call is under way; a later one uses it again.
struct MpiScratch {
  struct Counts {
    std::vector<int> counts, places;  // bytes, by rank
  };
  struct Piece {
    std::vector<std::byte> sent, received;
    Counts of_sent, of_received;
  };
  static constexpr size_t kGathers = 4;

  std::array<Piece, 2> pieces;
  std::array<Counts, kGathers> gathers;
};

/// Where a call's tensors travel by MPI's collectives, in pieces. All ranks are in it.
struct MpiCollectives {
  MPI_Comm group = MPI_COMM_NULL;
  int rank = 0;
  int ranks = 1;
  const LocalSubtrees* subtrees = nullptr;
  int64_t piece_bytes = 0;
  MpiWait wait = {};
  MpiScratch* scratch = nullptr;

  /// All_reduce and reduce_scatter in fixed order: MPI_Ialltoallv, the tree, MPI_Iallgatherv.
  void reduce(const CollectiveCall& call) const;
  /// The result, of numbers that MPI adds itself, by MPI_Iallreduce.
  void add(const CollectiveCall& call, MPI_Datatype dtype) const;
  void all_gather(const CollectiveCall& call) const;
  void broadcast(const CollectiveCall& call) const;
};

}  // namespace strata::collective
