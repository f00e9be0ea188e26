#pragma once

#include <condition_variable>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/mutex.h"
#include "strata/cluster/cluster_spec.h"
#include "strata/core/error.h"
#include "wire/hello.h"

namespace strata::cluster {

/// The purposes of connections between tasks.
constexpr std::string_view kControl = "control";
constexpr std::string_view kData = "data/";

/// Decides which peers may connect, and tells the accepting thread that one has. Shared with the
/// transport, which may outlive the server. Threads: any.
class PeerAuthorizer {
 public:
  /// @param members  The leader first.  @param leader_address  For errors.
  PeerAuthorizer(TaskId task, std::vector<TaskId> members, std::string leader_address)
      : task_(std::move(task)),
        members_(std::move(members)),
        leader_address_(std::move(leader_address)) {}

  /// Ok, or why the peer is refused.
  Status authorize(const wire::Hello& peer) const;

  /// A peer has connected.
  void arrived();
  /// Waits for `arrived`. @return false if stopped.
  bool wait(const std::stop_token& stop);

 private:
  const TaskId task_;
  const std::vector<TaskId> members_;
  const std::string leader_address_;

  Mutex mutex_;
  std::condition_variable_any arrives_;
  bool arrived_ STRATA_GUARDED_BY(mutex_) = false;
};

}  // namespace strata::cluster
