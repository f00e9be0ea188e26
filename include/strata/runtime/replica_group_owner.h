#pragma once

#include <memory>
#include <string>

#include "strata/core/error.h"
#include "strata/core/export.h"

namespace strata {

class StopConsensus;

/// What owns a replica group: the strategy, as far as its group knows it. The group calls it outside
/// replica functions, while no run is under way.
class STRATA_API ReplicaGroupOwner {
 public:
  virtual ~ReplicaGroupOwner() = default;

 private:
  friend class ReplicaGroup;

  /// A step has failed in this process.
  /// @param when  "in run 7", for messages.
  /// @return the error that the other processes get, which may wait for this one.
  virtual Status do_step_failed(const Status& status, const std::string& when) {
    static_cast<void>(when);
    return status;
  }
  /// A collective call has failed in all processes: connects them anew and calls
  /// `ReplicaGroup::reconnect`. By default a failed communicator stays.
  /// @throws Error  why there can be no further call.
  virtual void do_mend() {}
  /// See ReplicaGroup::make_stop_consensus.
  virtual std::shared_ptr<StopConsensus> do_make_stop_consensus() { return nullptr; }
};

}  // namespace strata
