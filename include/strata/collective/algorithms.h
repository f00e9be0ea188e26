#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/collective/placement.h"
#include "strata/collective/schedule.h"
#include "strata/core/export.h"

namespace strata::collective {

enum class Collective {
  kAllReduce,      ///< Every rank gets the reduction of all replicas' values.
  kReduceScatter,  ///< Rank r gets part r of n equal ones.
  kAllGather,      ///< Rank r brings part r of n equal ones; every rank gets all.
  kBroadcast,      ///< Every rank gets the root's buffer.
  kBarrier,        ///< Nobody leaves before all have come.
};
STRATA_API std::string_view collective_name(Collective collective);  ///< "all_reduce"

/// In which order sums are added.
enum class Order {
  kFixed,  ///< the binary tree over replica ids of tensor/tree_sum.h: same bits wherever they live
  kAny,    ///< as the algorithm likes: a ring may be used; bits depend on the placement
};

/// What a schedule is wanted for.
struct Request {
  Collective collective = Collective::kAllReduce;
  Placement placement = {};
  Order order = Order::kFixed;
  int root = 0;  ///< of a broadcast
};

/// A way to make schedules.
struct Algorithm {
  std::string name;  ///< lower case; `CommunicationOptions::implementation` finds it in any case
  Collective collective = Collective::kAllReduce;
  bool fixed_order = true;  ///< sums follow the tree; else it is offered for Order::kAny only
  bool pipelines = true;    ///< cutting the buffer into segments can make it faster
  /// Pure: every rank makes the same schedule of the same request.
  std::function<Schedule(const Request&)> make = {};
  /// Empty: fits all.
  std::function<bool(const Request&)> fits = {};
};

/// The algorithms that a planner chooses from: strata's own, and those that a user adds. See
/// docs/algorithms.md for what each does, with its messages and bytes.
class STRATA_API Algorithms {
 public:
  /// Strata's own.
  static Algorithms standard();

  /// @throws Error kAlreadyExists: there is one of this name for this collective.
  ///   kInvalidArgument: no name, nothing that makes schedules.
  void add(Algorithm algorithm);

  /// Those that can serve the request.
  std::vector<const Algorithm*> offered(const Request& request) const;
  /// Null if there is none. @param name  in any case.
  const Algorithm* find(Collective collective, std::string_view name) const;
  const std::vector<Algorithm>& all() const { return algorithms_; }

 private:
  std::vector<Algorithm> algorithms_;
};

/// What is wrong with `schedule`, found by running it with symbols for values; empty if it is
/// right. Then, in whatever order messages travel, every rank comes to its end, every rank's result
/// is the one requested (in fixed order just the tree's sum, else every value once), no message can
/// arrive in a buffer that is still in use, even if all receives are posted at the start, nobody
/// waits for ever if every rank sends and receives one message at a time, and no replica's value is
/// written unless the result is to take its place.
/// @param seed  Of the order in which ranks move, which should not matter; 0: in turn.
/// Cost: some microseconds a chunk of a step.
STRATA_API std::string find_fault(const Schedule& schedule, const Request& request,
                                  uint64_t seed = 0);

}  // namespace strata::collective
