#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "strata/checkpoint/checkpoint.h"
#include "strata/core/export.h"

namespace strata {

struct CheckpointManagerOptions {
  // Retention.
  /// The number of newest checkpoints that are kept; 0: all.
  int max_to_keep = 5;
  /// One of the checkpoints to remove is kept for good in each such interval. 0: none.
  double keep_checkpoint_every_n_hours = 0;
  /// A metric of `save`: the checkpoint with its best value is kept, too. Empty: none.
  std::string best_metric = {};
  enum class Best { kMin, kMax } best = Best::kMin;

  // Times.
  /// `save` does nothing until `step_counter()` is this far behind the last save. 0: always saves.
  int64_t checkpoint_interval = 0;
  std::function<int64_t()> step_counter = {};

  /// Called by `restore_or_initialize` if there is nothing to restore.
  std::function<void()> init_fn = {};
  /// Folders are `<name>-<number>`.
  std::string checkpoint_name = "ckpt";
  /// Returns seconds since 1970; empty: the system's clock.
  std::function<double()> now = {};
};

struct SaveOptions {
  std::optional<int64_t> number = {};  ///< Unset: the checkpoint's save counter.
  bool check_interval = true;
  std::map<std::string, double> metrics = {};
};

/// Keeps the newest, the best and some old checkpoints in a folder, and finds the last good one
/// after any failure. One job writes to a folder at a time, its chief; others may read. With
/// several workers the chief decides which checkpoint is restored.
///
///     CheckpointManager manager(checkpoint, "run", {.max_to_keep = 3});
///     manager.restore_or_initialize();
///     ...
///     manager.save();
///
/// Its state is the folder's contents, and survives restarts. A new manager removes the remains of
/// dead processes.
/// Threads: as Checkpoint, which must outlive it. Source: tf.train.CheckpointManager.
class STRATA_API CheckpointManager {
 public:
  /// @throws Error  kInvalidArgument: an interval without step_counter; negative numbers.
  CheckpointManager(Checkpoint& checkpoint, std::string folder,
                    CheckpointManagerOptions options = {});
  /// Waits for a pending save.
  ~CheckpointManager();
  CheckpointManager(const CheckpointManager&) = delete;
  CheckpointManager& operator=(const CheckpointManager&) = delete;

  /// Saves, and removes superseded checkpoints when the new one is on the medium.
  /// @return its path; none if the interval has not passed, or it was skipped (Busy::kSkip).
  /// @throws as Checkpoint::write. kInvalidArgument: best_metric is missing from `metrics`.
  std::optional<std::string> save(const SaveOptions& options = {});

  /// Restores the newest good checkpoint. Damaged ones are skipped with a warning that describes
  /// each fault. Without any checkpoint it calls `init_fn`.
  /// @return its path; none if there was nothing to restore.
  /// @throws Error  kDataLoss: there are checkpoints, but none is good. kInvalidArgument: it is
  ///     good, and does not fit the objects.
  std::optional<std::string> restore_or_initialize();
  /// The status of the last `restore_or_initialize` that restored something.
  /// @throws Error  kFailedPrecondition: nothing was restored.
  RestoreStatus& status();

  /// The newest checkpoint whose manifest and sizes are right.
  std::optional<std::string> latest_checkpoint() const;
  /// All, oldest first; without those that are kept by keep_checkpoint_every_n_hours alone.
  std::vector<std::string> checkpoints() const;
  std::optional<std::string> best_checkpoint() const;

  const std::string& folder() const;
  Checkpoint& checkpoint() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

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
