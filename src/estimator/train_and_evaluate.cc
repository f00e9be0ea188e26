#include "strata/estimator/train_and_evaluate.h"

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "estimator/estimator_impl.h"
#include "estimator/evaluate_and_export.h"
#include "estimator/evaluator_loop.h"
#include "runtime/replica_group.h"
#include "runtime/variable_placement.h"
#include "strata/cluster/resolvers.h"
#include "strata/cluster/roles.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/core/log.h"
#include "strata/strategies/parameter_server_strategy.h"

namespace strata::estimator {
namespace {

void check_specs(const TrainSpec& train, const EvalSpec& eval) {
  STRATA_CHECK(
      train.input_fn && eval.input_fn, kInvalidArgument, "[estimator] train_and_evaluate: got ",
      train.input_fn ? "an EvalSpec" : "a TrainSpec", " without input_fn; expected a function");
  STRATA_CHECK(train.max_steps.value_or(1) > 0, kInvalidArgument,
               "[estimator] TrainSpec: got max_steps ", *train.max_steps,
               "; expected max_steps > 0");
  STRATA_CHECK(eval.steps.value_or(1) > 0, kInvalidArgument, "[estimator] EvalSpec: got steps ",
               *eval.steps, "; expected steps > 0");
  STRATA_CHECK(eval.start_delay_secs >= 0, kInvalidArgument,
               "[estimator] EvalSpec: got start_delay_secs ", eval.start_delay_secs,
               "; expected start_delay_secs >= 0");
  STRATA_CHECK(eval.throttle_secs >= 0, kInvalidArgument,
               "[estimator] EvalSpec: got throttle_secs ", eval.throttle_secs,
               "; expected throttle_secs >= 0");
  std::set<std::string> names;
  for (const auto& exporter : eval.exporters) {
    STRATA_CHECK(names.insert(exporter->name()).second, kInvalidArgument,
                 "[estimator] EvalSpec: got two exporters called '", exporter->name(),
                 "'; exporters must have unique names: those of their folders");
  }
}

/// How long a task that is started behind the end of its job looks for the others.
constexpr std::chrono::seconds kLookForOthers{5};

/// A task that was started although the job had ended: again, since it was killed, or in a new job
/// with the same folder. The others may have ended, or wait for this task: the servers for the chief,
/// which tells them that the job is done.
void end_again(const std::shared_ptr<cluster::TfConfigResolver>& resolver) {
  try {
    if (run_parameter_server(
            {.cluster_resolver = resolver, .limits = {.idle_timeout = 2 * kLookForOthers}})) {
      return;
    }
    ParameterServerStrategyOptions options{.cluster_resolver = resolver};
    options.server.start_timeout = kLookForOthers;
    const ParameterServerStrategy tells_the_servers(options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDeadlineExceeded) throw;
    STRATA_VLOG(1) << "[estimator] train_and_evaluate: the others have ended: " << error.what();
  }
}

/// One task of a cluster with parameter servers.
void train_with_servers(Estimator& estimator, const TrainSpec& train) {
  const RunConfigOptions& options = estimator.config().options();
  const auto resolver = std::make_shared<cluster::TfConfigResolver>(
      cluster::TfConfigOptions{.environment = options.environment});
  const auto checkpoint = estimator.latest_checkpoint();
  if (options.train_distribute == nullptr && train.max_steps && checkpoint &&
      detail::step_of_checkpoint(*checkpoint) >= *train.max_steps) {
    return end_again(resolver);
  }
  if (run_parameter_server({.cluster_resolver = resolver})) return;
  std::optional<ParameterServerStrategy> made;
  if (options.train_distribute == nullptr)
    made.emplace(ParameterServerStrategyOptions{.cluster_resolver = resolver});
  Strategy& strategy = made ? *made : *options.train_distribute;
  STRATA_CHECK(strategy.group().placement().store() != nullptr, kInvalidArgument,
               "[estimator] train_and_evaluate: got a cluster with parameter servers and a ",
               strategy.name(),
               "; set RunConfigOptions::train_distribute to a "
               "ParameterServerStrategy, or leave it out");
  estimator.impl()->train(strategy, train.input_fn,
                          {.hooks = train.hooks,
                           .max_steps = train.max_steps,
                           .saving_listeners = train.saving_listeners});
}

/// Evaluates what training saves.
class EvaluatingListener final : public CheckpointSaverListener {
 public:
  EvaluatingListener(Estimator& estimator, const TrainSpec& train, const EvalSpec& eval,
                     TrainAndEvaluateResult& result)
      : estimator_(estimator), train_(train), eval_(eval), result_(result) {}

  void begin() override { is_first_save_ = true; }

  bool after_save(int64_t /*global_step*/) override {
    // It is what the call began with.
    if (std::exchange(is_first_save_, false)) return false;
    const double now = estimator_.config().now();
    if (!evaluated_at_ || now >= *evaluated_at_ + eval_.throttle_secs) evaluate();
    return false;
  }

  void end(int64_t global_step) override {
    if (!result_.evaluation || result_.evaluation->global_step != global_step) evaluate();
  }

 private:
  void evaluate() {
    detail::evaluate_and_export(estimator_, eval_, train_.max_steps, result_);
    evaluated_at_ = estimator_.config().now();
  }

  Estimator& estimator_;
  const TrainSpec& train_;
  const EvalSpec& eval_;
  TrainAndEvaluateResult& result_;
  bool is_first_save_ = true;
  std::optional<double> evaluated_at_;
};

}  // namespace

bool detail::evaluate_and_export(Estimator& estimator, const EvalSpec& spec,
                                 std::optional<int64_t> max_steps, TrainAndEvaluateResult& result) {
  const auto checkpoint = estimator.latest_checkpoint();
  if (!checkpoint) return false;
  if (result.evaluation && result.evaluation->global_step == step_of_checkpoint(*checkpoint)) {
    return false;
  }
  const Evaluation evaluation = estimator.evaluate(spec.input_fn, {.steps = spec.steps,
                                                                   .hooks = spec.hooks,
                                                                   .checkpoint_path = *checkpoint,
                                                                   .name = spec.name});
  const bool is_final = max_steps && evaluation.global_step >= *max_steps;
  result = {.evaluation = evaluation};
  for (const auto& exporter : spec.exporters) {
    const std::string path =
        join_path(join_path(estimator.model_dir(), "export"), exporter->name());
    result.exports.push_back(
        exporter->export_model(estimator, path, *checkpoint, evaluation, is_final).value_or(""));
  }
  return true;
}

TrainAndEvaluateResult train_and_evaluate(Estimator& estimator, const TrainSpec& train,
                                          const EvalSpec& eval) {
  check_specs(train, eval);
  const RunConfig& config = estimator.config();
  if (config.task_type() == cluster::kEvaluator) {
    STRATA_CHECK(config.task_id() == 0, kInvalidArgument,
                 "[estimator] train_and_evaluate: got evaluator ", config.task_id(),
                 "; there can only be one evaluator task");
    return detail::run_evaluator(estimator, eval, train.max_steps, [](double seconds) {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    });
  }
  if (config.num_ps_replicas() > 0) {
    train_with_servers(estimator, train);
    return {};
  }
  if (!config.cluster_spec().empty() && config.num_worker_replicas() > 1) {
    STRATA_CHECK(config.options().train_distribute != nullptr, kInvalidArgument,
                 "[estimator] train_and_evaluate: got a cluster of ", config.num_worker_replicas(),
                 " workers without a strategy; set RunConfigOptions::train_distribute, a "
                 "MultiWorkerMirroredStrategy");
    estimator.train(train.input_fn, {.hooks = train.hooks,
                                     .max_steps = train.max_steps,
                                     .saving_listeners = train.saving_listeners});
    return {};
  }
  TrainAndEvaluateResult result;
  Listeners listeners = train.saving_listeners;
  listeners.push_back(std::make_shared<EvaluatingListener>(estimator, train, eval, result));
  estimator.train(train.input_fn, {.hooks = train.hooks,
                                   .max_steps = train.max_steps,
                                   .saving_listeners = std::move(listeners)});
  return result;
}

}  // namespace strata::estimator
