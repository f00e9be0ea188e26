#include "strata/checkpoint/checkpoint_manager.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/manager_state.h"
#include "checkpoint/session.h"
#include "checkpoint/temporary_folder.h"
#include "core/mutex.h"
#include "core/seconds.h"
#include "runtime/context.h"
#include "runtime/group_agreement.h"
#include "runtime/replica_group.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/core/log.h"
#include "strata/runtime/replica_context.h"

namespace strata {
namespace {

using checkpoint::FolderListing;
using checkpoint::ManagedCheckpoint;

std::string name_of(const ManagedCheckpoint& each) { return split_path(each.path).second; }

/// Null if no metric is known.
const ManagedCheckpoint* best_of(const std::vector<ManagedCheckpoint>& all,
                                 CheckpointManagerOptions::Best best) {
  const ManagedCheckpoint* found = nullptr;
  for (const ManagedCheckpoint& each : all) {
    if (!each.metric) continue;
    const bool better = found == nullptr || (best == CheckpointManagerOptions::Best::kMax
                                                 ? *each.metric > *found->metric
                                                 : *each.metric < *found->metric);
    if (better) found = &each;
  }
  return found;
}

void warn_of_damaged(const FolderListing& listing) {
  for (const std::string& each : listing.damaged) {
    STRATA_LOG(kWarning) << "[checkpoint_manager] passed over: " << each;
  }
}

}  // namespace

/// Shared with the thread that writes, which removes old checkpoints behind a new one.
struct CheckpointManager::State {
  State(Checkpoint& checkpoint, std::string folder, CheckpointManagerOptions options)
      : checkpoint(checkpoint), folder(std::move(folder)), options(std::move(options)) {
    if (!this->options.now) this->options.now = &strata::detail::unix_time;
  }

  /// Not while the writing thread removes some of them.
  FolderListing list() const {
    const MutexLock lock(mutex);
    return list_locked();
  }
  FolderListing list_locked() const STRATA_REQUIRES(mutex) {
    return checkpoint::list_checkpoints(folder, options.checkpoint_name, options.best_metric);
  }

  /// Preserved ones are no longer counted.
  std::vector<ManagedCheckpoint> counted() const {
    std::vector<ManagedCheckpoint> all = list().good;
    const MutexLock lock(mutex);
    std::erase_if(all, [&](const ManagedCheckpoint& each)
                           STRATA_REQUIRES(mutex) { return is_preserved(each); });
    return all;
  }

  bool is_preserved(const ManagedCheckpoint& each) const STRATA_REQUIRES(mutex) {
    const auto& names = kept.preserved;
    return std::find(names.begin(), names.end(), name_of(each)) != names.end();
  }

  /// So that the first save stops the training for no longer than the others.
  void prepare() {
    try {
      checkpoint.prepare();
    } catch (const Error& error) {  // what cannot be saved yet
      STRATA_VLOG(1) << "[checkpoint_manager] prepare: " << error.what();
    }
  }

  std::shared_ptr<detail::RestoreSession> open_newest();
  void sweep();
  void sweep_quietly() {
    try {
      sweep();
    } catch (const Error& error) {
      STRATA_LOG(kWarning) << "[checkpoint_manager] " << folder
                           << ": cannot remove old checkpoints: " << error.what();
    }
  }

  Checkpoint& checkpoint;
  const std::string folder;
  CheckpointManagerOptions options;
  std::optional<int64_t> last_step;  // of the last save, by step_counter
  double newest = 0;                 // when the newest checkpoint was saved
  std::optional<RestoreStatus> status;

  mutable Mutex mutex;  // of the folder, too: the writing thread sweeps
  checkpoint::PreservedState kept STRATA_GUARDED_BY(mutex);
};

/// Removes all but the newest, the best and those that are preserved. Nothing that is damaged: it
/// does not count, and the user may want to look at it.
void CheckpointManager::State::sweep() {
  if (options.max_to_keep == 0) return;
  const FileSystem& files = file_system_of(folder);
  const MutexLock lock(mutex);
  std::vector<ManagedCheckpoint> all = list_locked().good;
  const ManagedCheckpoint* best = best_of(all, options.best);
  const std::string best_path = best == nullptr ? "" : best->path;
  std::erase_if(all, [&](const ManagedCheckpoint& each)
                         STRATA_REQUIRES(mutex) { return is_preserved(each); });
  const auto keep = static_cast<size_t>(options.max_to_keep);
  const double period = options.keep_checkpoint_every_n_hours * 3600;
  for (size_t i = 0; i + keep < all.size(); ++i) {
    if (all[i].path == best_path) continue;
    if (period > 0 && all[i].saved_at - period >= kept.last_preserved) {
      kept.last_preserved = all[i].saved_at;
      kept.preserved.push_back(name_of(all[i]));
      checkpoint::write_preserved(folder, options.checkpoint_name, kept);
    } else {
      checkpoint::discard_checkpoint(files, all[i].path);
    }
  }
}

/// Null: there is nothing to restore.
std::shared_ptr<detail::RestoreSession> CheckpointManager::State::open_newest() {
  const FolderListing listing = list();
  warn_of_damaged(listing);
  std::vector<std::string> damaged = listing.damaged;
  for (size_t i = listing.good.size(); i-- > 0;) {
    const std::string& path = listing.good[i].path;
    try {
      return checkpoint.open(path);
    } catch (const Error& error) {
      STRATA_LOG(kWarning) << "[checkpoint_manager] passed over: " << path << " (" << error.what()
                           << ")";
      damaged.push_back(str_cat(path, " (", error.what(), ")"));
    }
  }
  std::string all;
  for (const std::string& each : damaged) all += str_cat(all.empty() ? "" : "; ", each);
  STRATA_CHECK(damaged.empty(), kDataLoss, "[checkpoint_manager] restore_or_initialize: ", folder,
               " holds checkpoints, and none of them is good: ", all,
               "; repair or remove them, or choose another folder");
  return nullptr;
}

CheckpointManager::CheckpointManager(Checkpoint& checkpoint, std::string folder,
                                     CheckpointManagerOptions options)
    : state_(std::make_shared<State>(checkpoint, std::move(folder), std::move(options))) {
  const CheckpointManagerOptions& o = state_->options;
  STRATA_CHECK(
      o.max_to_keep >= 0 && o.keep_checkpoint_every_n_hours >= 0 && o.checkpoint_interval >= 0,
      kInvalidArgument, "[checkpoint_manager] got max_to_keep ", o.max_to_keep,
      ", keep_checkpoint_every_n_hours ", o.keep_checkpoint_every_n_hours, ", checkpoint_interval ",
      o.checkpoint_interval, "; expected 0 (off) or more");
  STRATA_CHECK(o.checkpoint_interval == 0 || o.step_counter, kInvalidArgument,
               "[checkpoint_manager] got checkpoint_interval ", o.checkpoint_interval,
               " without step_counter; pass {.step_counter = [&] { return step; }}");
  STRATA_CHECK(!o.checkpoint_name.empty() && o.checkpoint_name.find('/') == std::string::npos,
               kInvalidArgument, "[checkpoint_manager] got checkpoint_name '", o.checkpoint_name,
               "'; expected a name without '/'");
  detail::run_on_chief(checkpoint.workers(), "CheckpointManager", [&] {
    checkpoint::clean_up(file_system_of(state_->folder), state_->folder);
    const auto kept = checkpoint::read_preserved(state_->folder, o.checkpoint_name);
    {
      const MutexLock lock(state_->mutex);
      state_->kept = kept ? *kept : checkpoint::PreservedState{.last_preserved = o.now()};
    }
    const FolderListing listing = state_->list();
    if (!listing.good.empty()) state_->newest = listing.good.back().saved_at;
  });
}

CheckpointManager::~CheckpointManager() {
  try {
    state_->checkpoint.wait_local();
  } catch (const std::exception& error) {
    STRATA_LOG(kError) << "[checkpoint_manager] the last save failed: " << error.what();
  }
}

std::optional<std::string> CheckpointManager::save(const SaveOptions& options) {
  detail::require_cross_replica("CheckpointManager::save");
  State& state = *state_;
  const CheckpointManagerOptions& o = state.options;
  STRATA_CHECK(o.best_metric.empty() || options.metrics.contains(o.best_metric), kInvalidArgument,
               "[checkpoint_manager] save: got no metric '", o.best_metric,
               "', which decides which checkpoint is best; pass {.metrics = {{\"", o.best_metric,
               "\", value}}}");
  std::optional<int64_t> step;
  if (o.checkpoint_interval > 0) {
    step = o.step_counter();
    if (options.check_interval && state.last_step &&
        *step - *state.last_step < o.checkpoint_interval) {
      return std::nullopt;
    }
  }
  Checkpoint& checkpoint = state.checkpoint;
  const int64_t counter = checkpoint.save_counter();
  checkpoint.set_save_counter(counter + 1);
  const int64_t number = options.number.value_or(counter + 1);
  const std::string path = join_path(state.folder, str_cat(o.checkpoint_name, '-', number));
  // The newest is the one that was saved last, also where a clock went back.
  const double saved_at = std::max(o.now(), std::nextafter(state.newest, HUGE_VAL));
  bool written = false;
  try {
    written =
        checkpoint.write(path, {.number = number,
                                .metrics = options.metrics,
                                .saved_at = saved_at,
                                .on_written = [shared = state_] { shared->sweep_quietly(); }});
  } catch (...) {
    checkpoint.set_save_counter(counter);
    throw;
  }
  if (!written) {
    checkpoint.set_save_counter(counter);
    return std::nullopt;
  }
  state.newest = saved_at;
  if (step) state.last_step = step;
  return path;
}

std::optional<std::string> CheckpointManager::restore_or_initialize() {
  detail::require_cross_replica("CheckpointManager::restore_or_initialize");
  State& state = *state_;
  std::shared_ptr<detail::RestoreSession> session;
  const std::string path = detail::broadcast_from_chief(
      state.checkpoint.workers(), "CheckpointManager::restore_or_initialize", [&] {
        session = state.open_newest();
        return session ? session->loaded().path : std::string();
      });
  if (path.empty()) {
    const ReplicaGroup& workers = state.checkpoint.workers();
    detail::run_on_all(workers, "CheckpointManager::restore_or_initialize", [&] {
      STRATA_CHECK(!workers.options().late_joiner, kFailedPrecondition,
                   "[checkpoint_manager] restore_or_initialize: this process has come while the "
                   "others were training, and ",
                   state.folder,
                   " holds nothing to go on from; under an elastic strategy save before the first "
                   "step");
    });
    if (state.options.init_fn) state.options.init_fn();
    state.prepare();
    return std::nullopt;
  }
  session = state.checkpoint.open_together(path, std::move(session));
  state.status = state.checkpoint.apply(std::move(session));
  if (state.options.checkpoint_interval > 0) state.last_step = state.options.step_counter();
  state.prepare();
  return path;
}

RestoreStatus& CheckpointManager::status() {
  STRATA_CHECK(state_->status.has_value(), kFailedPrecondition,
               "[checkpoint_manager] status: nothing was restored; see what "
               "restore_or_initialize returns");
  return *state_->status;
}

std::optional<std::string> CheckpointManager::latest_checkpoint() const {
  const FolderListing listing = state_->list();
  warn_of_damaged(listing);
  if (listing.good.empty()) return std::nullopt;
  return listing.good.back().path;
}

std::vector<std::string> CheckpointManager::checkpoints() const {
  std::vector<std::string> paths;
  for (const ManagedCheckpoint& each : state_->counted()) paths.push_back(each.path);
  return paths;
}

std::optional<std::string> CheckpointManager::best_checkpoint() const {
  const std::vector<ManagedCheckpoint> all = state_->list().good;
  const ManagedCheckpoint* best = best_of(all, state_->options.best);
  if (best == nullptr) return std::nullopt;
  return best->path;
}

const std::string& CheckpointManager::folder() const { return state_->folder; }
Checkpoint& CheckpointManager::checkpoint() const { return state_->checkpoint; }

std::optional<std::string> latest_checkpoint(const std::string& folder, const std::string& prefix) {
  const FolderListing listing = checkpoint::list_checkpoints(folder, prefix);
  warn_of_damaged(listing);
  if (listing.good.empty()) return std::nullopt;
  return listing.good.back().path;
}

}  // namespace strata
