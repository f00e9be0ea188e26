#include "strategies/worker_stop_consensus.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "strata/core/log.h"
#include "strata/core/str_cat.h"

namespace strata::detail {
namespace {

// Why all stop, and that a worker takes part no longer.
constexpr const char* kStop = "stop";
constexpr const char* kMembershipChanged = "regroup";
constexpr const char* kEnd = "end";

wire::Deadline never() { return wire::Deadline::after(std::chrono::hours(24 * 365)); }

}  // namespace

WorkerStopConsensus::WorkerStopConsensus(std::shared_ptr<cluster::Server> server, int rank,
                                         int num_workers, int64_t number, bool take_in,
                                         std::function<void()> on_end)
    : server_(std::move(server)),
      rank_(rank),
      num_workers_(num_workers),
      number_(number),
      made_in_(server_->generation()),
      take_in_(take_in),
      on_end_(std::move(on_end)),
      generation_(made_in_) {
  begin_round();
}

WorkerStopConsensus::~WorkerStopConsensus() {
  const bool proposed = end_round();
  if (!proposed) return;
  try {  // the others may agree without this worker, and then be in the next round, but no further
    server_->set(key(round_ + 1, "step", rank_), kEnd);
  } catch (const std::exception& error) {
    STRATA_VLOG(1) << "[preemption] the cluster has ended: " << error.what();
  }
}

std::string WorkerStopConsensus::key(int64_t round, const char* what, int rank) const {
  return str_cat("strata/preemption/", made_in_, '/', number_, '/', round, '/', what, '/', rank);
}

/// After a failed step the workers go on in another generation, which knows nothing of what was
/// said in the one before. All come here after the same step.
void WorkerStopConsensus::begin_anew() {
  listener_.join();  // its wait has ended with that generation
  generation_ = server_->generation();
  round_ = 0;
  begin_round();
}

void WorkerStopConsensus::begin_round() {
  ++round_;
  leaving_ = false;
  told_.clear();
  proposed_.reset();
  agreed_.reset();
  listener_ = Thread("strata-preempt", [this] { listen(); });
}

/// Wakes the listener, and tells those who wait for this worker's proposal that there will be none.
/// @return whether there was one.
bool WorkerStopConsensus::end_round() {
  bool proposed = false;
  {
    const MutexLock lock(mutex_);
    leaving_ = true;
    proposed = proposed_.has_value();
  }
  try {
    if (!proposed) server_->set(key(round_, "step", rank_), kEnd);
    server_->set(key(round_, "stop", rank_), kEnd);
  } catch (const std::exception& error) {  // then the listener's wait has ended, too
    STRATA_VLOG(1) << "[preemption] the cluster has ended: " << error.what();
  }
  listener_.join();
  return proposed;
}

void WorkerStopConsensus::listen() {
  try {
    const std::string why = server_->get(key(round_, "stop", rank_), never());
    const MutexLock lock(mutex_);
    if (leaving_) return;
    if (told_.empty()) told_ = why;
    // Before the first call it is unknown how steps are counted: that call makes the proposal.
    if (finished_ && !proposed_) propose(*finished_ + 1);
  } catch (const std::exception& error) {  // training will find out
    STRATA_VLOG(1) << "[preemption] not listening any more: " << error.what();
  }
}

void WorkerStopConsensus::broadcast_stop(const char* why) {
  told_ = why;
  for (int rank = 0; rank < num_workers_; ++rank) server_->set(key(round_, "stop", rank), why);
}

void WorkerStopConsensus::propose(int64_t step) {
  proposed_ = step;
  server_->set(key(round_, "step", rank_), str_cat(step, ' ', told_));
}

/// Who was asked to stop saves and ends, also where others only know of a worker to take in.
void WorkerStopConsensus::wait_for_all() {
  int64_t latest = 0;
  bool membership_changes = true;
  for (int rank = 0; rank < num_workers_; ++rank) {
    const std::string proposal = server_->get(key(round_, "step", rank), never());
    if (proposal == kEnd) {
      peer_exited_ = true;
      return;
    }
    latest = std::max<int64_t>(latest, std::stoll(proposal));
    membership_changes = membership_changes && proposal.ends_with(kMembershipChanged);
  }
  agreed_ = latest;
  membership_changed_ = membership_changes;
}

std::optional<int64_t> WorkerStopConsensus::agree(int64_t finished_steps, bool preempted) {
  if (server_->generation() != generation_) begin_anew();
  if (agreed_ && *finished_ >= *agreed_) {
    end_round();
    begin_round();
  }
  MutexLock lock(mutex_);
  finished_ = finished_steps;
  if (told_.empty() && preempted) broadcast_stop(kStop);
  if (told_.empty() && take_in_ && rank_ == 0 && !server_->newcomers().empty())
    broadcast_stop(kMembershipChanged);
  if (told_.empty() || peer_exited_) return std::nullopt;
  if (!proposed_) propose(finished_steps);
  if (finished_steps < *proposed_) return std::nullopt;
  lock.unlock();
  if (!agreed_) wait_for_all();
  return agreed_;
}

}  // namespace strata::detail
