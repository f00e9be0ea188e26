#include "strata/estimator/early_stopping.h"

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "core/join.h"
#include "estimator/estimator_impl.h"
#include "estimator/eval_events.h"
#include "strata/core/error.h"
#include "strata/core/log.h"
#include "strata/estimator/run_config.h"

namespace strata::estimator {
namespace {

class EarlyStoppingHook final : public SessionRunHook {
 public:
  EarlyStoppingHook(std::function<bool()> should_stop, const EarlyStoppingOptions& options)
      : should_stop_(std::move(should_stop)),
        timer_(options.run_every_steps, options.run_every_secs) {
    STRATA_CHECK((options.run_every_steps > 0) != (options.run_every_secs > 0), kInvalidArgument,
                 "[estimator] early stopping: got run_every_secs ", options.run_every_secs,
                 ", run_every_steps ", options.run_every_steps,
                 "; expected exactly one of them above 0");
  }

  void begin(Session& /*session*/) override { timer_.reset(); }

  void after_run(Session& session, const StepResults& /*results*/) override {
    const double now = session.config().now();
    if (!session.is_chief() || !timer_.is_due(session.global_step(), now)) return;
    timer_.done(session.global_step(), now);
    if (!should_stop_()) return;
    STRATA_LOG(kInfo) << "[estimator] early stopping: training ends in step "
                      << session.global_step();
    session.request_stop();
  }

 private:
  const std::function<bool()> should_stop_;
  StepTimer timer_;
};

/// Of a worker with parameter servers, which sees steps that are in no checkpoint yet.
class StopAtCheckpointStepHook final : public SessionRunHook {
 public:
  StopAtCheckpointStepHook(const Estimator& estimator, int64_t last_step, double wait_secs)
      : estimator_(estimator), last_step_(last_step), wait_secs_(wait_secs) {}

  void after_run(Session& session, const StepResults& /*results*/) override {
    if (session.global_step() < last_step_) return;
    const auto checkpoint = estimator_.latest_checkpoint();
    if (checkpoint && detail::step_of_checkpoint(*checkpoint) >= last_step_) {
      session.request_stop();
    } else {
      std::this_thread::sleep_for(std::chrono::duration<double>(wait_secs_));
    }
  }

 private:
  const Estimator estimator_;
  const int64_t last_step_;
  const double wait_secs_;
};

/// Calls `look` with each evaluation's value that counts, in the order of steps, until it returns
/// true.
bool any_value(const std::string& folder, const std::string& metric, int64_t min_steps,
               const std::function<bool(int64_t step, double value)>& look) {
  for (const auto& [step, metrics] : detail::evaluations_in(folder)) {
    if (step < min_steps) continue;
    const auto found = metrics.find(metric);
    STRATA_CHECK(found != metrics.end(), kNotFound, "[estimator] early stopping: got metric '",
                 metric, "', which the evaluation of step ", step, " in ", folder,
                 " lacks; it has ", join(metrics, [](const auto& each) { return each.first; }));
    if (look(step, found->second)) return true;
  }
  return false;
}

std::string folder_of(const Estimator& estimator, const EarlyStoppingOptions& options) {
  return options.eval_dir.empty() ? estimator.eval_dir() : options.eval_dir;
}

/// @param sign  1: smaller is better; -1: larger.
std::shared_ptr<SessionRunHook> stop_if_no_better(const Estimator& estimator,
                                                  const std::string& metric,
                                                  int64_t max_steps_without, double sign,
                                                  const EarlyStoppingOptions& options) {
  const auto stops = [folder = folder_of(estimator, options), metric, max_steps_without, sign,
                      min_steps = options.min_steps] {
    std::optional<std::pair<int64_t, double>> best;
    return any_value(folder, metric, min_steps, [&](int64_t step, double value) {
      if (!best || sign * value < sign * best->second) best = {step, value};
      return step - best->first >= max_steps_without;
    });
  };
  return make_early_stopping_hook(stops, options);
}

std::shared_ptr<SessionRunHook> stop_if_beyond(const Estimator& estimator,
                                               const std::string& metric, double threshold,
                                               double sign, const EarlyStoppingOptions& options) {
  const auto stops = [folder = folder_of(estimator, options), metric, threshold, sign,
                      min_steps = options.min_steps] {
    return any_value(folder, metric, min_steps, [&](int64_t /*step*/, double value) {
      return sign * value > sign * threshold;
    });
  };
  return make_early_stopping_hook(stops, options);
}

}  // namespace

std::shared_ptr<SessionRunHook> make_early_stopping_hook(std::function<bool()> should_stop,
                                                         const EarlyStoppingOptions& options) {
  return std::make_shared<EarlyStoppingHook>(std::move(should_stop), options);
}

std::shared_ptr<SessionRunHook> make_stop_at_checkpoint_step_hook(
    const Estimator& estimator, int64_t last_step, double wait_after_file_check_secs) {
  STRATA_CHECK(last_step > 0 && wait_after_file_check_secs >= 0, kInvalidArgument,
               "[estimator] make_stop_at_checkpoint_step_hook: got last_step ", last_step,
               ", wait_after_file_check_secs ", wait_after_file_check_secs,
               "; expected last_step > 0 and no negative time");
  const RunConfig& config = estimator.config();
  if (config.num_ps_replicas() > 0 && !config.is_chief()) {
    return std::make_shared<StopAtCheckpointStepHook>(estimator, last_step,
                                                      wait_after_file_check_secs);
  }
  return std::make_shared<StopAtStepHook>(StopAtStepHook::Options{.last_step = last_step});
}

std::shared_ptr<SessionRunHook> stop_if_no_decrease_hook(const Estimator& estimator,
                                                         const std::string& metric,
                                                         int64_t max_steps_without,
                                                         const EarlyStoppingOptions& options) {
  return stop_if_no_better(estimator, metric, max_steps_without, 1, options);
}

std::shared_ptr<SessionRunHook> stop_if_no_increase_hook(const Estimator& estimator,
                                                         const std::string& metric,
                                                         int64_t max_steps_without,
                                                         const EarlyStoppingOptions& options) {
  return stop_if_no_better(estimator, metric, max_steps_without, -1, options);
}

std::shared_ptr<SessionRunHook> stop_if_higher_hook(const Estimator& estimator,
                                                    const std::string& metric, double threshold,
                                                    const EarlyStoppingOptions& options) {
  return stop_if_beyond(estimator, metric, threshold, 1, options);
}

std::shared_ptr<SessionRunHook> stop_if_lower_hook(const Estimator& estimator,
                                                   const std::string& metric, double threshold,
                                                   const EarlyStoppingOptions& options) {
  return stop_if_beyond(estimator, metric, threshold, -1, options);
}

}  // namespace strata::estimator
