#include "strata/checkpoint/checkpoint.h"

#include <algorithm>
#include <thread>

#include "checkpoint/session.h"
#include "checkpoint/writer.h"
#include "strata/core/error.h"
#include "strata/core/log.h"
#include "strata/runtime/replica_context.h"
#include "strata/runtime/replica_group.h"

namespace strata {
namespace {

using detail::CheckpointState;
using detail::RestoreSession;

/// With the same bits the run goes on only under the plan that was saved.
void compare_plans(const checkpoint::Loaded& loaded, const checkpoint::Graph& graph) {
  const checkpoint::ManifestPlan& saved = loaded.manifest.plan;
  const ReplicaGroup& group = *graph.groups[0];
  const auto threads = group.options().threads_per_replica;
  if (saved.replicas == group.num_replicas() && saved.threads_per_replica == threads) return;
  STRATA_LOG(kInfo) << "[checkpoint] " << loaded.path << " was saved by " << saved.replicas
                    << " replicas of " << saved.threads_per_replica << " threads; here are "
                    << group.num_replicas() << " of " << threads
                    << ": training goes on, with other rounding";
}

/// What the writing thread may have of a core while nobody waits for it: 2 % of all cores, so that
/// the training's steps hardly notice.
double writer_share() { return std::min(1.0, 0.02 * std::thread::hardware_concurrency()); }

checkpoint::Snapshot take(CheckpointState& state, const WriteOptions& options) {
  checkpoint::Snapshot snapshot =
      checkpoint::take_snapshot(state.graph(),
                                {.shard_bytes = state.options.shard_bytes,
                                 .per_replica = state.options.per_replica,
                                 .shard_prefix = "state-"},
                                state.options.asynchronous ? &state.staging : nullptr);
  snapshot.manifest.number = options.number;
  snapshot.manifest.metrics = options.metrics;
  if (options.saved_at) snapshot.manifest.saved_at = *options.saved_at;
  return snapshot;
}

}  // namespace

Checkpoint::Checkpoint(Objects objects, CheckpointOptions options)
    : state_(std::make_shared<CheckpointState>(std::move(objects), options)) {
  STRATA_CHECK(options.shard_bytes > 0, kInvalidArgument, "[checkpoint] got shard_bytes ",
               options.shard_bytes, "; expected a positive number");
  (void)state_->graph();  // says now what is wrong with the names
}

Checkpoint::~Checkpoint() {
  try {
    state_->background.wait();
  } catch (const std::exception& error) {
    STRATA_LOG(kError) << "[checkpoint] the last asynchronous save failed: " << error.what();
  }
}

void Checkpoint::add(const std::string& name, const Tracked& object) {
  state_->objects.emplace_back(name, object);
  try {
    (void)state_->graph();
  } catch (...) {
    state_->objects.pop_back();
    throw;
  }
  if (state_->last_restore) state_->last_restore->apply();
}

std::string Checkpoint::save(const std::string& prefix) {
  detail::require_cross_replica("Checkpoint::save");
  const int64_t number = ++state_->save_counter;
  const std::string path = str_cat(prefix, '-', number);
  try {
    if (!write(path, {.number = number})) --state_->save_counter;
  } catch (...) {
    --state_->save_counter;
    throw;
  }
  return path;
}

bool Checkpoint::write(const std::string& path, const WriteOptions& options) {
  detail::require_cross_replica("Checkpoint::write");
  CheckpointState& state = *state_;
  if (!state.options.asynchronous) {
    checkpoint::Snapshot snapshot = take(state, options);
    checkpoint::write_checkpoint(path, snapshot);
    if (options.on_written) options.on_written();
    return true;
  }
  if (state.background.busy() && state.options.while_saving == CheckpointOptions::Busy::kSkip) {
    STRATA_LOG(kInfo) << "[checkpoint] " << path
                      << " is skipped: the one before is still being written";
    return false;
  }
  state.background.wait();
  auto snapshot = std::make_shared<checkpoint::Snapshot>(take(state, options));
  snapshot->give_way = [&state] { state.background.give_way(writer_share()); };
  state.background.start([path, snapshot, written = options.on_written] {
    checkpoint::write_checkpoint(path, *snapshot);
    if (written) written();
  });
  return true;
}

RestoreStatus Checkpoint::read(const std::string& path) {
  const int64_t counter = state_->save_counter;
  RestoreStatus status = restore(path);
  state_->save_counter = counter;
  return status;
}

RestoreStatus Checkpoint::restore(const std::string& path) { return apply(open(path)); }

std::shared_ptr<RestoreSession> Checkpoint::open(const std::string& path) {
  detail::require_cross_replica("Checkpoint::restore");
  state_->background.wait_quietly();
  return std::make_shared<RestoreSession>(state_, checkpoint::load_checkpoint(path));
}

RestoreStatus Checkpoint::apply(std::shared_ptr<RestoreSession> session) {
  compare_plans(session->loaded(), state_->graph());
  try {
    session->apply();
  } catch (...) {
    session->keep_quiet();
    throw;
  }
  state_->last_restore = session;
  return RestoreStatus(session);
}

void Checkpoint::wait() { state_->background.wait(); }
bool Checkpoint::saving() const { return state_->background.busy(); }

void Checkpoint::prepare() {
  if (state_->options.asynchronous && !saving()) (void)take(*state_, {});
}

int64_t Checkpoint::save_counter() const { return state_->save_counter; }
void Checkpoint::set_save_counter(int64_t counter) { state_->save_counter = counter; }
const CheckpointOptions& Checkpoint::options() const { return state_->options; }

}  // namespace strata
