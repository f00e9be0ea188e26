#include "strata/checkpoint/preemption.h"

#include "core/clock.h"
#include "core/termination.h"
#include "runtime/replica_group.h"
#include "strata/core/log.h"

namespace strata {
namespace {

class OneProcess final : public StopConsensus {
 public:
  std::optional<int64_t> agree(int64_t finished_steps, bool preempted) override {
    return preempted ? std::optional(finished_steps) : std::nullopt;
  }
};

Clock& clock_of(const PreemptionOptions& options) {
  return options.clock == nullptr ? Clock::system() : *options.clock;
}

/// What an earlier save failed of must not keep the last one from being made.
void finish_earlier_save(Checkpoint& checkpoint) {
  try {
    checkpoint.wait();
  } catch (const std::exception& error) {
    STRATA_LOG(kWarning) << "[preemption] an earlier save failed: " << error.what();
  }
}

}  // namespace

Preempted::Preempted(int exit_code)
    : ExitError(
          exit_code, ErrorCode::kCancelled,
          str_cat("[preemption] the process received a request to stop, and its state is saved; "
                  "expected to exit with ",
                  exit_code)) {}

PreemptionCheckpointHandler::PreemptionCheckpointHandler(CheckpointManager& manager,
                                                         PreemptionOptions options)
    : PreemptionCheckpointHandler(
          manager.checkpoint(),
          [&manager] {
            finish_earlier_save(manager.checkpoint());
            (void)manager.save({.check_interval = false});
            manager.checkpoint().wait();
          },
          std::move(options)) {}

PreemptionCheckpointHandler::PreemptionCheckpointHandler(Checkpoint& checkpoint,
                                                         const std::string& prefix,
                                                         PreemptionOptions options)
    : PreemptionCheckpointHandler(
          checkpoint,
          [&checkpoint, prefix] {
            finish_earlier_save(checkpoint);
            (void)checkpoint.save(prefix);
            checkpoint.wait();
          },
          std::move(options)) {}

PreemptionCheckpointHandler::PreemptionCheckpointHandler(Checkpoint& checkpoint,
                                                         std::function<void()> save,
                                                         PreemptionOptions options)
    : save_(std::move(save)), options_(std::move(options)), agreement_(options_.agreement) {
  STRATA_CHECK(!options_.on_sigterm || detail::TerminationGuard::possible(), kFailedPrecondition,
               "[preemption] got a second PreemptionCheckpointHandler; expected one at a time");
  if (!agreement_) agreement_ = checkpoint.workers().make_stop_consensus();
  if (!agreement_) agreement_ = std::make_shared<OneProcess>();
  if (options_.on_sigterm) termination_ = std::make_unique<detail::TerminationGuard>();
}

PreemptionCheckpointHandler::~PreemptionCheckpointHandler() = default;

bool PreemptionCheckpointHandler::preempted() const {
  return noticed_ || (termination_ && termination_->requested());
}

void PreemptionCheckpointHandler::check(int64_t finished_steps) {
  if (!noticed_ && options_.termination_watcher) noticed_ = options_.termination_watcher();
  // The grace period ends as it began: by a step that all agree on.
  const bool stop = deadline_ ? clock_of(options_).now() >= *deadline_ : preempted();
  const std::optional<int64_t> agreed = agreement_->agree(finished_steps, stop);
  if (!agreed || finished_steps < *agreed) return;
  if (agreement_->membership_changes()) {
    save_();
    throw MembershipChanged(finished_steps);
  }
  if (deadline_ || options_.grace_period.count() == 0) return save_and_end();
  STRATA_LOG(kWarning) << "[preemption] stop requested; stopping after step " << finished_steps
                       << "; saving, and training on for " << options_.grace_period.count()
                       << " ms";
  save_();
  deadline_ = clock_of(options_).now() + options_.grace_period;
}

void PreemptionCheckpointHandler::save_and_end() {
  STRATA_LOG(kWarning) << "[preemption] stop requested; saving, then exit " << options_.exit_code;
  save_();
  // From here on it is done. If it came during a MembershipChanged, the next handler sees it.
  noticed_ = true;
  if (termination_) termination_->handled();
  agreement_->end();
  if (options_.exit_fn) return options_.exit_fn(options_.exit_code);
  throw Preempted(options_.exit_code);
}

}  // namespace strata
