#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "collective/planner/link_model.h"
#include "core/mutex.h"
#include "strata/collective/algorithms.h"
#include "strata/collective/communication_options.h"
#include "strata/collective/schedule.h"

namespace strata::collective {

/// What is wanted of a planner.
struct Wanted {
  Collective collective = Collective::kAllReduce;
  int64_t elements = 0;
  int64_t element_bytes = 4;
  int64_t partial_bytes = 4;  ///< as in Payload
  int root = 0;               ///< of a broadcast
};

/// What a planner chose.
struct Choice {
  std::string algorithm;
  int segments = 1;
  double seconds = 0;  ///< predicted for the size at which it was priced
  std::shared_ptr<const Schedule> schedule;
};

/// Picks an algorithm and a number of segments for each size, by pricing every schedule on a model
/// of the links. All ranks that plan with the same placement, links, options and algorithms choose
/// alike, so only rank 0's model has to be agreed on.
///
/// Threads: any.
class Planner {
 public:
  /// @throws Error kInvalidArgument: no such implementation; one whose sums are not in fixed order,
  ///   without Order::kAny; one that does not fit the placement.
  explicit Planner(Placement placement, LinkModel links = LinkModel::typical(),
                   CommunicationOptions options = {},
                   Algorithms algorithms = Algorithms::standard());

  /// The table for a collective is made when it is first asked for (milliseconds for 8 ranks); then
  /// a choice is a look into it.
  /// @throws Error kInternal: an algorithm that a user added made a wrong schedule; says what is
  /// wrong.
  Choice choose(const Wanted& wanted) const;

  /// The price of the fastest of all, at this very size; nothing is kept. For tests and benchmarks.
  Choice choose_exhaustively(const Wanted& wanted) const;

  /// What is chosen up to which size, with the predicted time at that size:
  ///
  ///     all_reduce of 8 ranks on 8 hosts, fixed order
  ///       up to    16 KiB: exchange                0.13 ms
  ///       up to     4 MiB: halving_doubling/4     61.30 ms
  ///       above          : direct/16
  std::string describe(Collective collective) const;

  const Placement& placement() const { return placement_; }
  const LinkModel& links() const { return links_; }
  const CommunicationOptions& options() const { return options_; }

 private:
  struct Candidate {
    const Algorithm* algorithm = nullptr;
    int segments = 1;
    double seconds = 0;
    friend bool operator==(const Candidate& a, const Candidate& b) {
      return a.algorithm == b.algorithm && a.segments == b.segments;
    }
  };
  struct Row {
    int64_t up_to;  ///< bytes
    Candidate candidate;
  };
  using TableKey = std::tuple<Collective, int64_t, int64_t, int>;  // element, partial bytes, root

  Request request(const Wanted& wanted) const;
  std::vector<const Algorithm*> allowed(const Request& request) const;
  double price_of(const Wanted& wanted, const Candidate& candidate, double at_most) const
      STRATA_REQUIRES(mutex_);
  bool can_cut(const Wanted& wanted, const Algorithm& algorithm, int segments) const
      STRATA_REQUIRES(mutex_);
  Candidate best(const Wanted& wanted, const Candidate& hint) const STRATA_REQUIRES(mutex_);
  Candidate best_or(const Candidate& other, Wanted wanted, int64_t bytes) const
      STRATA_REQUIRES(mutex_);
  void refine(const Wanted& wanted, int64_t low, const Candidate& at_low, int64_t high,
              const Candidate& at_high, std::vector<Row>& rows) const STRATA_REQUIRES(mutex_);
  double longest_message(const Wanted& wanted, const Algorithm& algorithm) const
      STRATA_REQUIRES(mutex_);
  void cut_long_messages(const Wanted& wanted, std::vector<Row>& rows) const
      STRATA_REQUIRES(mutex_);
  const std::vector<Row>& table(const Wanted& wanted) const STRATA_REQUIRES(mutex_);
  std::shared_ptr<const Schedule> schedule(const Wanted& wanted, const Algorithm& algorithm,
                                           int segments) const STRATA_REQUIRES(mutex_);

  const Placement placement_;
  const LinkModel links_;
  const CommunicationOptions options_;
  const Algorithms algorithms_;

  mutable Mutex mutex_;
  mutable std::map<TableKey, std::vector<Row>> tables_ STRATA_GUARDED_BY(mutex_);
  mutable std::map<std::tuple<const Algorithm*, int, int>, std::shared_ptr<const Schedule>>
      schedules_ STRATA_GUARDED_BY(mutex_);  // by algorithm, segments, root
};

}  // namespace strata::collective
