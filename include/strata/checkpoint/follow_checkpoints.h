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
  /// Checkpoints are called `<name>-<number>`.
  std::string checkpoint_name = "ckpt";
  /// Files with these endings count, too: {".safetensors"}.
  std::vector<std::string> file_endings = {};
  /// The limit of the wait for the next one.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// The polling interval.
  std::chrono::milliseconds interval = std::chrono::seconds(1);
  /// Ends the call between two checkpoints.
  std::stop_token stop = {};
  /// SIGTERM ends it, too. False: for a handler of your own.
  bool on_sigterm = true;
};

struct FollowedCheckpoint {
  std::string path;
  int64_t number;
};

/// Calls `body` with the newest checkpoint in `folder`, and again each time there is a newer one,
/// until it returns false. Those that are written while it is busy are skipped, except the last;
/// one that the training process has removed meanwhile is skipped, too, whatever `body` throws
/// then. For a process that watches another's training.
/// @return false: a stop was requested.
/// @throws Error  kDeadlineExceeded: no new checkpoint in time; names the last one. kCancelled:
///     Ctrl-C under an InterruptGuard. kFailedPrecondition: another handler of SIGTERM is
///     installed. Exceptions of `body`.
/// Source: tf.train.checkpoints_iterator.
STRATA_API bool follow_checkpoints(const std::string& folder,
                                   const std::function<bool(const FollowedCheckpoint&)>& body,
                                   const FollowOptions& options = {});

}  // namespace strata
