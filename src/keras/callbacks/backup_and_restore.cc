#include "strata/keras/callbacks/backup_and_restore.h"

#include "checkpoint/temporary_folder.h"
#include "keras/training/training_run.h"
#include "runtime/group_agreement.h"
#include "strata/checkpoint/checkpoint_manager.h"
#include "strata/checkpoint/preemption.h"
#include "strata/core/file_system.h"

namespace strata::callbacks {

BackupAndRestore::BackupAndRestore(std::string backup_dir, const BackupAndRestoreOptions& options)
    : folder_(std::move(backup_dir)), options_(options) {
  STRATA_CHECK(!folder_.empty(), kInvalidArgument,
               "[callbacks] BackupAndRestore: got an empty backup_dir");
  STRATA_CHECK(options.save_freq >= 0, kInvalidArgument,
               "[callbacks] BackupAndRestore: got save_freq=", options.save_freq,
               "; expected a number of batches, or 0 for every epoch");
}
BackupAndRestore::~BackupAndRestore() = default;
BackupAndRestore::BackupAndRestore(BackupAndRestore&&) noexcept = default;

void BackupAndRestore::release_signal() { preemption_.reset(); }

void BackupAndRestore::on_restore() {
  preemption_.reset();
  manager_.reset();
  checkpoint_ = std::make_unique<Checkpoint>(
      run().state(), CheckpointOptions{.asynchronous = options_.asynchronous});
  manager_ = std::make_unique<CheckpointManager>(*checkpoint_, folder_,
                                                 CheckpointManagerOptions{.max_to_keep = 1});
  if (manager_->restore_or_initialize()) {
    manager_->status().assert_consumed();
  } else if (run().model()->strategy().is_elastic()) {
    manager_->save();  // a worker may be lost before the first backup is due
  }
  saved_at_ = run().train_steps();
  resume_points_ = 0;
  if (options_.on_sigterm || run().model()->strategy().is_elastic()) {
    preemption_ = std::make_unique<PreemptionCheckpointHandler>(
        *manager_, PreemptionOptions{.on_sigterm = options_.on_sigterm});
  }
}

void BackupAndRestore::on_resume_point() {
  if (preemption_) preemption_->check(++resume_points_);
  const bool epoch_begins = run().batch() == 0;
  const int64_t steps = run().train_steps() - saved_at_;
  if (options_.save_freq == 0 ? !epoch_begins : steps < options_.save_freq) return;
  manager_->save();
  saved_at_ = run().train_steps();
}

void BackupAndRestore::on_train_end(keras::Logs&) {
  preemption_.reset();
  checkpoint_->wait();
  const auto remove_all = [&] {
    const FileSystem& files = file_system_of(folder_);
    if (!files.info(folder_)) return;  // a training that was too short for a backup
    for (const std::string& backup : manager_->checkpoints()) {
      checkpoint::discard_checkpoint(files, backup);
    }
    for (const std::string& name : files.list(folder_)) {
      if (!files.info(join_path(folder_, name))->is_folder) files.remove(join_path(folder_, name));
    }
    if (files.list(folder_).empty()) files.remove(folder_);
  };
  if (options_.delete_checkpoint) {
    strata::detail::run_on_chief(run().model()->strategy().group(), "BackupAndRestore", remove_all);
  }
  manager_.reset();
  checkpoint_.reset();
}

}  // namespace strata::callbacks
