#include "strata/checkpoint/checkpoint.h"

#include <algorithm>
#include <bit>
#include <thread>

#include "checkpoint/session.h"
#include "checkpoint/writer.h"
#include "kernels/kernel_agreement.h"
#include "runtime/context.h"
#include "runtime/group_agreement.h"
#include "runtime/replica_group.h"
#include "strata/core/error.h"
#include "strata/core/log.h"
#include "strata/runtime/replica_context.h"

namespace strata {
namespace {

using detail::CheckpointState;
using detail::RestoreSession;

/// A run does not continue with other kernels' bits unnoticed. Weights alone, to predict or evaluate
/// or as a start, may come from any processor.
void compare_kernels(const checkpoint::Loaded& loaded, const checkpoint::Graph& graph) {
  const std::string& saved = loaded.manifest.plan.kernels;
  const std::string own = checkpoint::kernels_of(*graph.groups[0]);
  const std::string what = str_cat("[checkpoint] restore: ", loaded.path, " was saved with");
  if (graph.continues_run) {
    kernels::require_same_kernels(what, saved, own, kernels::mismatch_allowed());
  } else if (!saved.empty() && saved != own) {
    STRATA_LOG(kInfo) << what << " the kernels '" << saved << "', and this process has '" << own
                      << "': what is computed from it may differ in the last place";
  }
}

/// With the same bits the run continues only under the plan that was saved.
void compare_plans(const checkpoint::Loaded& loaded, const checkpoint::Graph& graph) {
  compare_kernels(loaded, graph);
  const checkpoint::ManifestPlan& saved = loaded.manifest.plan;
  const int replicas = graph.groups[0]->num_replicas();
  if (saved.replicas == replicas) return;
  STRATA_LOG(kInfo) << "[checkpoint] " << loaded.path << " was saved by " << saved.replicas
                    << " replicas; here are " << replicas
                    << ": training continues, with other rounding";
}

/// What the writing thread may have of a core while no thread waits for it: 2 % of all cores, so
/// that the training's steps hardly notice.
double writer_share() { return std::min(1.0, 0.02 * std::thread::hardware_concurrency()); }

/// Every process reads; the chief's snapshot is what is written.
checkpoint::Snapshot take(CheckpointState& state, const WriteOptions& options) {
  const checkpoint::Graph graph = state.graph();
  checkpoint::Snapshot snapshot =
      checkpoint::take_snapshot(graph,
                                {.shard_bytes = state.options.shard_bytes,
                                 .per_replica = state.options.per_replica,
                                 .shard_prefix = "state-",
                                 .writes = detail::is_chief(*graph.workers)},
                                state.options.asynchronous ? &state.staging : nullptr);
  snapshot.manifest.number = options.number;
  snapshot.manifest.metrics = options.metrics;
  if (options.saved_at) snapshot.manifest.saved_at = *options.saved_at;
  return snapshot;
}

/// The replicas of the scope, if they live in several processes.
std::shared_ptr<ReplicaGroup> group_of_scope() {
  ReplicaGroup* const group = detail::current_context().group;
  return group->communicator() ? group->shared_from_this() : detail::default_group();
}

/// What tells a checkpoint from another of the same name.
std::string identity(const checkpoint::Manifest& manifest) {
  std::string text = str_cat(manifest.number, ' ', std::bit_cast<uint64_t>(manifest.saved_at));
  for (const checkpoint::ManifestShard& shard : manifest.shards) text += str_cat(' ', shard.sha256);
  return text;
}

}  // namespace

Checkpoint::Checkpoint(Objects objects, CheckpointOptions options)
    : state_(std::make_shared<CheckpointState>(std::move(objects), options, group_of_scope())) {
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
    const checkpoint::Graph graph = state_->graph();
    if (state_->last_restore) compare_kernels(state_->last_restore->loaded(), graph);
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
    detail::run_on_chief(*state.workers, "Checkpoint::write", [&] {
      checkpoint::write_checkpoint(path, snapshot);
      if (options.on_written) options.on_written();
    });
    return true;
  }
  const std::string skipped =
      detail::broadcast_from_chief(*state.workers, "Checkpoint::write", [&] {
        if (state.background.busy() &&
            state.options.while_saving == CheckpointOptions::Busy::kSkip) {
          return "skipped";
        }
        state.background.wait();
        return "";
      });
  if (!skipped.empty()) {
    STRATA_LOG(kInfo) << "[checkpoint] " << path
                      << " is skipped: the one before is still being written";
    return false;
  }
  auto snapshot = std::make_shared<checkpoint::Snapshot>(take(state, options));
  if (!detail::is_chief(*state.workers)) return true;
  snapshot->throttle = [&state] { state.background.throttle(writer_share()); };
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

RestoreStatus Checkpoint::restore(const std::string& path) { return apply(open_together(path)); }

std::shared_ptr<RestoreSession> Checkpoint::open(const std::string& path) {
  detail::require_cross_replica("Checkpoint::restore");
  state_->background.wait_quietly();
  return std::make_shared<RestoreSession>(state_, checkpoint::load_checkpoint(path));
}

/// @param session  This process has opened it already.
std::shared_ptr<RestoreSession> Checkpoint::open_together(const std::string& path,
                                                          std::shared_ptr<RestoreSession> session) {
  const ReplicaGroup& group = *state_->workers;
  if (group.communicator() == nullptr) return session ? session : open(path);
  detail::run_on_chief(group, "Checkpoint::restore", [&] { state_->background.wait_quietly(); });
  try {
    detail::run_on_all(group, "Checkpoint::restore, reading", [&] {
      if (!session) session = open_checked(path);
    });
    const std::vector<std::string> seen = detail::all_gather_strings(
        group, "Checkpoint::restore, which one", identity(session->loaded().manifest));
    for (size_t rank = 1; rank < seen.size(); ++rank) {
      STRATA_CHECK(seen[rank] == seen[0], kFailedPrecondition, "[checkpoint] restore: ", path,
                   ": worker ", rank,
                   " sees another checkpoint there than the chief; the folder "
                   "must be one that all workers see");
    }
  } catch (...) {
    if (session) session->suppress_warning();
    throw;
  }
  return session;
}

std::shared_ptr<RestoreSession> Checkpoint::open_checked(const std::string& path) {
  try {
    return open(path);
  } catch (const Error& error) {
    if (detail::is_chief(*state_->workers) || error.code() != ErrorCode::kNotFound) throw;
    throw Error(error.code(),
                str_cat(error.what(), "; the folder must be one that all workers see"));
  }
}

RestoreStatus Checkpoint::apply(std::shared_ptr<RestoreSession> session) {
  const ReplicaGroup& group = *state_->workers;
  try {
    detail::run_on_all(group, "Checkpoint::restore", [&] {
      if (detail::is_chief(group)) compare_plans(session->loaded(), state_->graph());
      session->apply();
    });
  } catch (...) {
    session->suppress_warning();
    throw;
  }
  state_->last_restore = session;
  state_->workers->finish_catch_up();
  return RestoreStatus(session);
}

void Checkpoint::wait() {
  detail::run_on_chief(*state_->workers, "Checkpoint::wait", [&] { wait_local(); });
}
void Checkpoint::wait_local() { state_->background.wait(); }
bool Checkpoint::saving() const { return state_->background.busy(); }

void Checkpoint::prepare() {
  if (!state_->options.asynchronous) return;
  const std::string busy = detail::broadcast_from_chief(*state_->workers, "Checkpoint::prepare",
                                                        [&] { return saving() ? "busy" : ""; });
  if (busy.empty()) (void)take(*state_, {});
}

int64_t Checkpoint::save_counter() const { return state_->save_counter; }
void Checkpoint::set_save_counter(int64_t counter) { state_->save_counter = counter; }
const ReplicaGroup& Checkpoint::workers() const { return *state_->workers; }
const CheckpointOptions& Checkpoint::options() const { return state_->options; }

}  // namespace strata
