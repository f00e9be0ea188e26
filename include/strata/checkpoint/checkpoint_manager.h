#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/checkpoint/checkpoint.h"
#include "strata/core/export.h"

namespace strata {

struct CheckpointManagerOptions {
  // Which are kept.
  /// The newest ones; 0: all.
  int max_to_keep = 5;
  /// Of those that would be removed, one every so many hours stays for good. 0: none.
  double keep_checkpoint_every_n_hours = 0;
  /// A metric given to `save`: the checkpoint with its best value stays, too. Empty: none.
  std::string best_metric = {};
  enum class Best { kMin, kMax } best = Best::kMin;

  // When.
  /// `save` does nothing until `step_counter()` is this far behind the last save. 0: always saves.
  int64_t checkpoint_interval = 0;
  std::function<int64_t()> step_counter = {};

  /// Called by `restore_or_initialize` where there is nothing to restore.
  std::function<void()> init_fn = {};
  /// Folders are <name>-<number>.
  std::string checkpoint_name = "ckpt";
  /// Seconds since 1970; empty: the system's clock.
  std::function<double()> now = {};
};

struct SaveOptions {
  std::optional<int64_t> number = {};  ///< Unset: the checkpoint's save counter.
  bool check_interval = true;
  std::map<std::string, double> metrics = {};
};

/// Keeps the newest, the best and some old checkpoints in a folder, and finds the last good one
/// after whatever happened. One job writes to a folder at a time, its chief; others may read. With
/// several workers the chief decides which checkpoint is restored.
///
///     CheckpointManager manager(checkpoint, "run", {.max_to_keep = 3});
///     manager.restore_or_initialize();
///     ...
///     manager.save();
///
/// Its own state is what the folder holds; it survives restarts. What dead processes left behind is
/// removed when a manager is made.
/// Threads: as Checkpoint, which must outlive it. Source: tf.train.CheckpointManager.
class STRATA_API CheckpointManager {
 public:
  /// @throws Error  kInvalidArgument: an interval without step_counter; negative numbers.
  CheckpointManager(Checkpoint& checkpoint, std::string folder,
                    CheckpointManagerOptions options = {});
  /// Waits for the save in flight.
  ~CheckpointManager();
  CheckpointManager(const CheckpointManager&) = delete;
  CheckpointManager& operator=(const CheckpointManager&) = delete;

  /// Saves, and removes what need not be kept once the new one is on the medium.
  /// @return its path; none if the interval has not passed, or it was skipped (Busy::kSkip).
  /// @throws as Checkpoint::write. kInvalidArgument: best_metric is missing from `metrics`.
  std::optional<std::string> save(const SaveOptions& options = {});

  /// Restores the newest good checkpoint. Damaged ones are passed over with a warning that says
  /// what is wrong with each. Where there is none at all, calls `init_fn`.
  /// @return its path; none if there was nothing to restore.
  /// @throws Error  kDataLoss: there are checkpoints, and none is good. kInvalidArgument: it is
  ///     good, and does not fit the objects.
  std::optional<std::string> restore_or_initialize();
  /// Of the last `restore_or_initialize` that found something.
  /// @throws Error  kFailedPrecondition: there was none.
  RestoreStatus& status();

  /// Newest of those whose manifest and sizes are right.
  std::optional<std::string> latest_checkpoint() const;
  /// Oldest first; without those that only keep_checkpoint_every_n_hours keeps.
  std::vector<std::string> checkpoints() const;
  std::optional<std::string> best_checkpoint() const;

  const std::string& folder() const;
  Checkpoint& checkpoint() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace strata
