#pragma once

#include <memory>
#include <string>

#include "strata/core/error.h"
#include "strata/core/export.h"

namespace strata {

class StopConsensus;

/// The owner of a replica group: the interface of the strategy to its group. The group calls it
/// outside replica functions, while no run is in progress.
class STRATA_API ReplicaGroupOwner {
 public:
  virtual ~ReplicaGroupOwner() = default;

 private:
  friend class ReplicaGroup;

  /// Handles a failed step in this process.
  /// @param when  "in run 7", for messages.
  /// @return the error that the other processes get, which may wait for this one.
  virtual Status do_step_failed(const Status& status, const std::string& when) {
    static_cast<void>(when);
    return status;
  }
  /// Handles a collective call that has failed in all processes: reconnects them and calls
  /// `ReplicaGroup::reconnect`. By default a failed communicator stays.
  /// @throws Error  the reason why no further call is possible.
  virtual void do_mend() {}
  /// See ReplicaGroup::refresh.
  virtual void do_refresh() {}
  /// See ReplicaGroup::make_stop_consensus.
  virtual std::shared_ptr<StopConsensus> do_make_stop_consensus() { return nullptr; }
};

}  // namespace strata
