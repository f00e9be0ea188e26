#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "strata/core/export.h"
#include "strata/keras/callback.h"

namespace strata {
class CheckpointManager;
class Checkpoint;
}  // namespace strata

namespace strata::callbacks {

struct BackupAndRestoreOptions {
  /// Batches between two backups; 0: one after each epoch.
  int64_t save_freq = 0;
  /// Take the backups away when training has ended as planned.
  bool delete_checkpoint = true;
  /// A thread writes them while training goes on.
  bool asynchronous = false;
};

/// Makes `fit` go on where it was interrupted: a program that is killed anywhere and started again
/// ends with the same bits as one that was not. Saved are weights, optimizer, the place in the
/// input, random streams, metrics, history and the state of all callbacks; Keras's own saves the
/// weights, the optimizer and the epoch. Source: keras.callbacks.BackupAndRestore.
class STRATA_API BackupAndRestore : public Callback {
 public:
  /// @throws Error kInvalidArgument: an empty path, a negative save_freq.
  explicit BackupAndRestore(std::string backup_dir, const BackupAndRestoreOptions& options = {});
  ~BackupAndRestore() override;
  BackupAndRestore(BackupAndRestore&&) noexcept;

  /// @throws Error  kFailedPrecondition: the backup is of another model, or other callbacks.
  void on_restore() override;
  void on_resume_point() override;
  void on_train_end(keras::Logs& logs) override;

 private:
  std::string folder_;
  BackupAndRestoreOptions options_;
  int64_t saved_at_ = 0;  // of the run's train_steps
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<CheckpointManager> manager_;
};

}  // namespace strata::callbacks
