#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "strata/core/export.h"

namespace strata {

struct FollowOptions {
  /// Checkpoints are called <name>-<number>.
  std::string checkpoint_name = "ckpt";
  /// Files count, too, if their names go on so: {".safetensors"}.
  std::vector<std::string> file_endings = {};
  /// How long to wait for the next one.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// How often to look.
  std::chrono::milliseconds interval = std::chrono::seconds(1);
  /// Ends it between two checkpoints.
  std::stop_token stop = {};
  /// So does SIGTERM. Off: for a handler of your own.
  bool on_sigterm = true;
};

struct FollowedCheckpoint {
  std::string path;
  int64_t number;
};

/// Calls `body` with the newest checkpoint in `folder`, and again each time there is a newer one,
/// until it returns false. Those that come while it is busy are passed over, except the last; one
/// that whoever trains has removed meanwhile is passed over, too, whatever `body` throws then. For
/// a process that watches another's training.
/// @return false: it was told to stop.
/// @throws Error  kDeadlineExceeded: none came in time; names the last one. kCancelled: Ctrl-C
///     under an InterruptGuard. kFailedPrecondition: another handler of SIGTERM is installed. And what `body`
///     throws.
/// Source: tf.train.checkpoints_iterator.
STRATA_API bool follow_checkpoints(const std::string& folder,
                                   const std::function<bool(const FollowedCheckpoint&)>& body,
                                   const FollowOptions& options = {});

}  // namespace strata
