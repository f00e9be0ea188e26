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
  /// The number of batches between two backups; 0: one after each epoch.
  int64_t save_freq = 0;
  /// Removes the backups when training has ended regularly.
  bool delete_checkpoint = true;
  /// Writes them on a thread while training continues.
  bool asynchronous = false;
  /// SIGTERM, at any worker, makes all back up after the same step and `fit` throw Preempted, with
  /// whose exit_code() (42) the program should end. False: for a handler of your own.
  bool on_sigterm = true;
};

/// Makes `fit` continue after an interruption: a program that is killed at any point and restarted
/// ends with the same bits as an uninterrupted one. It saves weights, optimizer, the position in
/// the input, random streams, metrics, history and the state of all callbacks; Keras's own saves
/// the weights, the optimizer and the epoch. With several workers all of them need it, at the same
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

  /// Stops handling SIGTERM: `fit` has ended, with or without an error.
  void release_signal();

 private:
  std::string folder_;
  BackupAndRestoreOptions options_;
  int64_t saved_at_ = 0;  // the run's train_steps
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<CheckpointManager> manager_;
  std::unique_ptr<PreemptionCheckpointHandler> preemption_;
  int64_t resume_points_ = 0;  // in this process
};

}  // namespace strata::callbacks
