#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/callback.h"

namespace strata {
class CheckpointManager;
class Checkpoint;
class PreemptionCheckpointHandler;
}  // namespace strata

namespace strata::callbacks {

struct BackupAndRestoreOptions {
  /// Batches between two backups; 0: one after each epoch.
  int64_t save_freq = 0;
  /// Take the backups away when training has ended as planned.
  bool delete_checkpoint = true;
  /// A thread writes them while training goes on.
  bool asynchronous = false;
  /// SIGTERM, at any worker, makes all back up after the same step and `fit` throw Preempted, with
  /// whose exit_code() (42) the program should end. Off: for a handler of your own.
  bool on_sigterm = true;
};

/// Makes `fit` go on where it was interrupted: a program that is killed anywhere and started again
/// ends with the same bits as one that was not. Saved are weights, optimizer, the place in the
/// input, random streams, metrics, history and the state of all callbacks; Keras's own saves the
/// weights, the optimizer and the epoch. With several workers all of them need it, in the same
/// place of the list, and a folder that all of them see; the chief writes. Source:
/// keras.callbacks.BackupAndRestore.
class STRATA_API BackupAndRestore : public Callback {
 public:
  /// @throws Error kInvalidArgument: an empty path, a negative save_freq.
  explicit BackupAndRestore(std::string backup_dir, const BackupAndRestoreOptions& options = {});
  ~BackupAndRestore() override;
  BackupAndRestore(BackupAndRestore&&) noexcept;

  /// @throws Error  kFailedPrecondition: the backup is of another model, or other callbacks;
  ///                another handler of SIGTERM is installed.
  void on_restore() override;
  void on_resume_point() override;
  void on_train_end(keras::Logs& logs) override;

  /// SIGTERM is not its matter any more: `fit` has ended, in whatever way.
  void let_go();

 private:
  std::string folder_;
  BackupAndRestoreOptions options_;
  int64_t saved_at_ = 0;  // of the run's train_steps
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<CheckpointManager> manager_;
  std::unique_ptr<PreemptionCheckpointHandler> preemption_;
  int64_t resume_points_ = 0;  // that this process has come by
};

}  // namespace strata::callbacks
