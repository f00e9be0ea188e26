#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/collective/algorithms.h"
#include "strata/core/export.h"
#include "strata/core/one_of.h"

namespace strata::collective {

struct CommunicationImplementationWords {
  enum Word {
    kAuto,
    kWire,
    kMpi,
    kDirect,
    kExchange,
    kHalvingDoubling,
    kRecursiveDoubling,
    kHierarchical,
    kRing,
    kTree
  };
  static constexpr const char* kOption = "implementation";
  static constexpr const char* kWords[] = {
      "AUTO",         "WIRE", "MPI", "DIRECT", "EXCHANGE", "HALVING_DOUBLING", "RECURSIVE_DOUBLING",
      "HIERARCHICAL", "RING", "TREE"};
};
using CommunicationImplementation = OneOf<CommunicationImplementationWords>;

/// How replicas of several processes communicate.
/// Source: tf.distribute.experimental.CommunicationOptions; `order` is ours.
struct CommunicationOptions {
  /// The order in which sums are added. Order::kAny lets AUTO use the ring; results then depend on
  /// where replicas live.
  Order order = Order::kFixed;
  /// Of each collective, from its start on. Then every rank gets an error that names who is
  /// missing.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);

  /// "AUTO" picks the fastest for each size: shared memory where all are on one host, else the
  /// algorithm on the wire. "WIRE" is AUTO without shared memory. "MPI" is MPI's collectives, for
  /// processes that mpirun or srun has started (make_mpi_communicator). Else the name of an
  /// algorithm ("RING", "DIRECT", "HALVING_DOUBLING", ..., in any case; one of yours), which is
  /// taken for every size, on the wire.
  CommunicationImplementation implementation = "AUTO";
  /// Tensors reduced together travel in packs of about so many bytes, see `packs_of`; 0: in one, or
  /// as many as `overlap` wants.
  int64_t bytes_per_pack = 0;
  /// Gradients travel while backward still runs. Unset: where there are several hosts; on one, the
  /// cores that would move them are busy.
  std::optional<bool> overlap = {};
  /// Of your own, beside strata's, the same in all processes: AUTO chooses from them, too, and
  /// `implementation` may name one. Each schedule is proven before it is used (`find_fault`). Like
  /// all algorithms, for the wire.
  std::vector<Algorithm> algorithms = {};
};

/// How tensors of these sizes are packed: the last tensor first, since backward is done with it
/// first; a pack ends when its size exceeds `bytes_per_pack`. @return indices into `bytes`, a
/// vector a pack.
/// @throws Error kInvalidArgument: negative sizes.
/// Source: tf.distribute.CollectiveAllReduce.
STRATA_API std::vector<std::vector<size_t>> packs_of(const std::vector<int64_t>& bytes,
                                                     int64_t bytes_per_pack);

}  // namespace strata::collective
