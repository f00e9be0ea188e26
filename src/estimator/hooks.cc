#include "strata/estimator/hooks.h"

#include <cmath>
#include <span>

#include "strata/core/log.h"
#include "strata/estimator/run_config.h"
#include "strata/summary/summary_writer.h"

namespace strata::estimator {
namespace {

/// How often a loss is looked at for NaN where looking makes the host wait for a GPU.
constexpr int64_t kNanCheckSteps = 100;

}  // namespace

NanLossDuringTrainingError::NanLossDuringTrainingError(int64_t step)
    : Error(ErrorCode::kInvalidArgument,
            str_cat("[estimator] train: got a loss of NaN in step ", step,
                    "; lower the learning rate, clip gradients, or look at the input")) {}

Session::~Session() = default;
StepResults::~StepResults() = default;
SessionRunHook::~SessionRunHook() = default;
CheckpointSaverListener::~CheckpointSaverListener() = default;

bool StepTimer::is_due(int64_t step, double now) const {
  if (!last_step_) return true;
  if (step == *last_step_) return false;
  if (every_secs_ > 0 && now >= last_time_ + every_secs_) return true;
  return every_steps_ > 0 && step >= *last_step_ + every_steps_;
}

void StepTimer::done(int64_t step, double now) {
  last_step_ = step;
  last_time_ = now;
}

CheckpointSaverHook::CheckpointSaverHook(CheckpointSaverOptions options)
    : listeners_(std::move(options.listeners)), timer_(options.save_steps, options.save_secs) {
  STRATA_CHECK((options.save_steps > 0) != (options.save_secs > 0), kInvalidArgument,
               "[estimator] CheckpointSaverHook: got save_steps ", options.save_steps,
               ", save_secs ", options.save_secs, "; expected exactly one of the two");
}

void CheckpointSaverHook::add_listeners(const Listeners& listeners) {
  listeners_.insert(listeners_.end(), listeners.begin(), listeners.end());
}

void CheckpointSaverHook::begin(Session& /*session*/) {
  timer_.reset();
  for (const auto& listener : listeners_) listener->begin();
}

void CheckpointSaverHook::after_create_session(Session& session) { save(session); }

void CheckpointSaverHook::after_run(Session& session, const StepResults& /*results*/) {
  if (timer_.is_due(session.global_step(), session.config().now()) && save(session)) {
    session.request_stop();
  }
}

void CheckpointSaverHook::end(Session& session) {
  if (timer_.last_step() != session.global_step()) save(session);
  for (const auto& listener : listeners_) listener->end(session.global_step());
}

bool CheckpointSaverHook::save(Session& session) {
  const int64_t step = session.global_step();
  timer_.done(step, session.config().now());
  for (const auto& listener : listeners_) listener->before_save(step);
  session.save();
  bool stop = false;
  for (const auto& listener : listeners_) stop = listener->after_save(step) || stop;
  return stop;
}

StopAtStepHook::StopAtStepHook(const Options& options) : options_(options) {
  STRATA_CHECK(options.num_steps.has_value() != options.last_step.has_value(), kInvalidArgument,
               "[estimator] StopAtStepHook: got ", options.num_steps ? "both" : "neither",
               " of num_steps and last_step; expected exactly one");
}

void StopAtStepHook::after_create_session(Session& session) {
  last_step_ =
      options_.last_step ? *options_.last_step : session.global_step() + *options_.num_steps;
}

void StopAtStepHook::after_run(Session& session, const StepResults& /*results*/) {
  if (session.global_step() >= last_step_) session.request_stop();
}

void NanTensorHook::after_run(Session& session, const StepResults& results) {
  if (!results.is_ready() && session.global_step() % kNanCheckSteps != 0) return;
  if (!std::isnan(results.loss())) return;
  if (fail_) throw NanLossDuringTrainingError(session.global_step());
  STRATA_LOG(kWarning) << "[estimator] train: the loss is NaN in step " << session.global_step()
                       << "; training ends";
  session.request_stop();
}

LoggingTensorHook::LoggingTensorHook(int64_t every_n_iter) : timer_(every_n_iter) {
  STRATA_CHECK(every_n_iter > 0, kInvalidArgument,
               "[estimator] LoggingTensorHook: got every_n_iter ", every_n_iter,
               "; expected 1 or more");
}

void LoggingTensorHook::begin(Session& /*session*/) {
  timer_.reset();
  iterations_ = 0;
}

void LoggingTensorHook::after_run(Session& session, const StepResults& /*results*/) {
  const double now = session.config().now();
  const int64_t iteration = iterations_++;
  if (!timer_.is_due(iteration, now)) return;
  const double loss = session.loss_over_workers();
  if (session.is_chief()) {
    STRATA_LOG(kInfo) << "[estimator] loss = " << loss << ", step = " << session.global_step() - 1
                      << (iteration == 0 ? "" : str_cat(" (", now - timer_.last_time(), " sec)"));
  }
  timer_.done(iteration, now);
}

StepCounterHook::StepCounterHook(int64_t every_n_steps) : timer_(every_n_steps) {
  STRATA_CHECK(every_n_steps > 0, kInvalidArgument,
               "[estimator] StepCounterHook: got every_n_steps ", every_n_steps,
               "; expected 1 or more");
}

void StepCounterHook::begin(Session& /*session*/) { timer_.reset(); }

void StepCounterHook::after_run(Session& session, const StepResults& /*results*/) {
  const int64_t step = session.global_step();
  const double now = session.config().now();
  if (!timer_.is_due(step, now)) return;
  if (timer_.last_step() && now > timer_.last_time() && session.writer() != nullptr) {
    const double rate =
        static_cast<double>(step - *timer_.last_step()) / (now - timer_.last_time());
    session.writer()->scalar("global_step/sec", rate, step);
    STRATA_LOG(kInfo) << "[estimator] global_step/sec: " << rate;
  }
  timer_.done(step, now);
}

SummarySaverHook::SummarySaverHook(int64_t save_steps) : timer_(save_steps) {
  STRATA_CHECK(save_steps > 0, kInvalidArgument, "[estimator] SummarySaverHook: got save_steps ",
               save_steps, "; expected 1 or more");
}

void SummarySaverHook::begin(Session& /*session*/) { timer_.reset(); }

void SummarySaverHook::after_run(Session& session, const StepResults& results) {
  const int64_t step = session.global_step();
  const double now = session.config().now();
  if (!timer_.is_due(step, now)) return;
  timer_.done(step, now);
  const double loss = session.loss_over_workers();
  if (session.writer() == nullptr) return;
  if (!results.scalar("loss")) session.writer()->scalar("loss", loss, step);
  for (const std::string& name : results.scalar_names()) {
    session.writer()->scalar(name, *results.scalar(name), step);
  }
  for (const auto& [name, tensor] : results.histograms()) {
    const at::Tensor numbers = tensor.to(at::kCPU, at::kDouble).contiguous();
    session.writer()->histogram(
        name, std::span(numbers.const_data_ptr<double>(), static_cast<size_t>(numbers.numel())),
        step);
  }
}

}  // namespace strata::estimator
