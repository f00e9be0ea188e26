#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "strata/cluster/cluster_spec.h"
#include "strata/core/error.h"
#include "strata/wire/hello.h"

namespace strata::cluster {

/// What a connection between tasks is for.
constexpr std::string_view kControl = "control";
constexpr std::string_view kData = "data/";

/// Who may come in, and whether somebody has. Belongs to the transport, too, which may outlive the
/// server. Threads: any.
class Door {
 public:
  /// @param members  The leader first.  @param leader_address  For errors.
  Door(TaskId task, std::vector<TaskId> members, std::string leader_address)
      : task_(std::move(task)),
        members_(std::move(members)),
        leader_address_(std::move(leader_address)) {}

  /// Ok, or why not.
  Status admit(const wire::Hello& peer) const;

  /// Somebody has come in.
  void arrived();
  /// Waits for that. @return false: stopped.
  bool wait(const std::stop_token& stop);

 private:
  const TaskId task_;
  const std::vector<TaskId> members_;
  const std::string leader_address_;

  std::mutex mutex_;
  std::condition_variable_any arrives_;
  bool someone_ = false;
};

}  // namespace strata::cluster
