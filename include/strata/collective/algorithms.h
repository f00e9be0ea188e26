#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/collective/schedule.h"
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

enum class Collective {
  kAllReduce,      ///< Every rank gets the reduction of all replicas' values.
  kReduceScatter,  ///< Rank r gets part r of n equal ones.
  kAllGather,      ///< Rank r contributes part r of n equal ones; every rank gets all.
  kBroadcast,      ///< Every rank gets the root's buffer.
  kBarrier,        ///< No rank leaves before all have entered.
};
STRATA_API std::string_view collective_name(Collective collective);  ///< "all_reduce"

/// The order in which sums are added.
enum class Order {
  kFixed,  ///< the binary tree over replica ids of tensor/tree_sum.h: same bits for every placement
  kAny,    ///< as the algorithm chooses: a ring may be used; bits depend on the placement
};

/// The request that a schedule is made for.
struct Request {
  Collective collective = Collective::kAllReduce;
  Placement placement = {};
  Order order = Order::kFixed;
  int root = 0;  ///< broadcast only
};

/// An algorithm that makes schedules.
struct Algorithm {
  std::string name;  ///< lower case; `CommunicationOptions::implementation` finds it in any case
  Collective collective = Collective::kAllReduce;
  bool fixed_order = true;  ///< sums follow the tree; else it is offered for Order::kAny only
  bool pipelines = true;    ///< cutting the buffer into segments can make it faster
  /// Pure: every rank makes the same schedule for the same request.
  std::function<Schedule(const Request&)> make = {};
  /// Tells whether it can serve a request; empty: it serves all.
  std::function<bool(const Request&)> fits = {};
};

/// The algorithms that a planner chooses from: strata's own, and those that a user adds.
/// docs/algorithms.md describes each, with its messages and bytes.
class STRATA_API Algorithms {
 public:
  /// Returns strata's own algorithms.
  static Algorithms standard();

  /// @throws Error kAlreadyExists: this collective has an algorithm of this name.
  ///   kInvalidArgument: no name, nothing that makes schedules.
  void add(Algorithm algorithm);

  /// Returns the algorithms that can serve the request.
  std::vector<const Algorithm*> offered(const Request& request) const;
  /// Returns null if it does not exist. @param name  in any case.
  const Algorithm* find(Collective collective, std::string_view name) const;
  const std::vector<Algorithm>& all() const { return algorithms_; }

 private:
  std::vector<Algorithm> algorithms_;
};

/// Verifies `schedule` by running it with symbols for values. @return the fault; empty if it is
/// right. A right schedule terminates on every rank in whatever order messages travel, and every
/// rank's result is the one requested (in fixed order just the tree's sum, else every value once).
/// No message can arrive in a buffer that is still in use, even if all receives are posted at the
/// start. It does not deadlock if every rank sends and receives one message at a time, and it
/// overwrites no replica's value unless the result is to replace it.
/// @param seed  The order in which ranks move, which should not matter; 0: in turn.
/// Cost: some microseconds for each chunk of a step.
STRATA_API std::string find_fault(const Schedule& schedule, const Request& request,
                                  uint64_t seed = 0);

}  // namespace strata::collective
