#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "strata/core/export.h"
#include "strata/ps/partitioner.h"
#include "strata/ps/placement_strategy.h"
#include "strata/ps/variable_spec.h"

namespace strata::ps {

/// Elements `begin` to `end` (excluded) of a variable, row-major, and the server that holds them.
struct Piece {
  size_t variable;  ///< index into the placed variables
  int64_t begin;
  int64_t end;
  int server;

  int64_t size() const { return end - begin; }
  friend bool operator==(const Piece&, const Piece&) = default;
};

/// The assignment of variables to servers.
struct STRATA_API Placement {
  std::vector<Piece> pieces;  ///< ascending by variable, then begin; each element once; none empty
  std::vector<int64_t> server_bytes;  ///< by server

  /// The ratio of the fullest server's bytes to the mean: 1 is the best; 1 without any bytes.
  double imbalance() const;
  friend bool operator==(const Placement&, const Placement&) = default;
};

struct PlacementOptions {
  /// Makes the rule that chooses a server for each variable, or for each part that `partitioner`
  /// makes: `round_robin`, `greedy`, or a user-defined function. Null without a partitioner:
  /// automatic. Null with one: `round_robin`, as TensorFlow's ParameterServerStrategy does.
  std::function<PlacementStrategy(int num_servers)> strategy = nullptr;
  /// Cuts along axis 0; not called for scalars, single rows and `Split::kNever`.
  Partitioner partitioner = nullptr;
};

/// Assigns every element of `variables` to a server.
///
/// Automatic placement keeps all servers equally full, whatever the sizes. Variables that may be
/// cut anywhere are treated, by dtype and in the order given, as one range of bytes, of which each
/// server gets an equal part; a cut is at a multiple of 64 bytes of its variable. Each variable
/// that is cut between rows is spread over all servers by itself, so that each server gets its part
/// of the traffic of every table. Whole variables are placed first, in decreasing size, each on the
/// server with the least bytes; the others then even out the differences.
///
/// A `device` with a task (`/job:ps/task:1`) puts the whole variable on that server.
///
/// A pure function: equal arguments give equal placements, on every machine.
/// @throws Error  kInvalidArgument: no servers; an unknown shape; a device of another job than
///   "ps" or a task that does not exist; an answer of partitioner or strategy that is out of range.
STRATA_API Placement place(std::span<const VariableSpec> variables, int num_servers,
                           const PlacementOptions& options = {});

}  // namespace strata::ps
