#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "collective/planner/link_model.h"
#include "simulate/fabric.h"
#include "strata/collective/schedule.h"

namespace strata::simulate {

/// One call of a collective on a fabric: the steps of its schedule, rank by rank, as the executors
/// run them. A rank begins when it is ready; what others have sent it before waits for it. Messages
/// and additions cost the rank's processor what the link model says.
class ScheduleRun {
 public:
  using Finished = std::function<void(int rank)>;

  /// @param schedule  Of messages, of the fabric's ranks; or the steps of one rank of a fabric
  ///                  `of_one_rank`.
  /// @param finished  A rank has its result, and all that it sent has left.
  ScheduleRun(Fabric& fabric, std::shared_ptr<const collective::Schedule> schedule,
              const collective::Payload& payload, Finished finished);
  ScheduleRun(const ScheduleRun&) = delete;
  ScheduleRun& operator=(const ScheduleRun&) = delete;

  void begin(int rank);

  /// When the last rank finished.
  double finished_at() const { return finished_at_; }
  int finished_ranks() const { return finished_ranks_; }

 private:
  struct Rank {
    size_t next = 0;
    bool begun = false;
    int unsent = 0;
    bool through = false;
    int waits_for = -1;
    std::vector<int> arrived;  // messages that are there and not received yet, by peer
  };

  void step(int rank);
  void arrive(int from, int to);
  void end_if_through(int rank);
  double bytes(int rank, int slot, const collective::Step& step) const;

  Fabric& fabric_;
  const std::shared_ptr<const collective::Schedule> schedule_;
  const collective::Payload payload_;
  const Finished finished_;
  const bool one_rank_;
  std::vector<int64_t> starts_;  // by chunk
  std::vector<Rank> ranks_;
  double finished_at_ = 0;
  int finished_ranks_ = 0;
};

}  // namespace strata::simulate
