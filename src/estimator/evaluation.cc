#include <optional>
#include <string>

#include "estimator/estimator_impl.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/summary/summary_writer.h"

namespace strata::estimator {
namespace {

/// A call of evaluate.
class EvalSession final : public Session {
 public:
  EvalSession(const Estimator::Impl& estimator, Strategy& strategy, int64_t global_step)
      : estimator_(estimator), strategy_(strategy), global_step_(global_step) {}

  int64_t global_step() const override { return global_step_; }
  const RunConfig& config() const override { return estimator_.options.config; }
  bool is_chief() const override { return strategy_.is_chief(); }
  void save() override {
    throw Error(ErrorCode::kFailedPrecondition,
                "[estimator] Session::save: evaluate saves no checkpoints; use the hook in train");
  }
  summary::SummaryWriter* writer() override { return nullptr; }
  double loss_over_workers() override {
    throw Error(ErrorCode::kFailedPrecondition,
                "[estimator] Session::loss_over_workers: evaluate has a loss at its end alone");
  }

 private:
  const Estimator::Impl& estimator_;
  Strategy& strategy_;
  const int64_t global_step_;
};

/// Steps of evaluate and predict have results for the call alone.
class NoResults final : public StepResults {
 public:
  double loss() const override {
    throw Error(ErrorCode::kFailedPrecondition,
                "[estimator] StepResults::loss: evaluate has a loss at its end alone");
  }
  bool is_ready() const override { return false; }
  std::optional<double> scalar(const std::string& /*name*/) const override { return std::nullopt; }
  std::vector<std::string> scalar_names() const override { return {}; }
};

}  // namespace

Evaluation Estimator::Impl::evaluate(const InputFn& input_fn, const EvaluateOptions& how) {
  STRATA_CHECK(how.steps.value_or(1) > 0, kInvalidArgument, "[estimator] evaluate: got steps ",
               *how.steps, "; expected steps > 0, or none for all of the input");
  Strategy* given = options.config.options().eval_distribute;
  Strategy& strategy = given != nullptr ? *given : static_cast<Strategy&>(default_strategy());
  const auto checkpoint = checkpoint_to_read(how.checkpoint_path);
  const int64_t global_step = checkpoint ? detail::step_of_checkpoint(*checkpoint) : 0;
  return detail::with_other_processes(strategy, [&] {
    detail::BatchInput input(strategy, input_fn);
    detail::BuiltModel model(model_fn, strategy, options.config, options.params, Mode::kEval,
                             global_step, input.fields(), input.first());
    EvalSession session(*this, strategy, global_step);
    Hooks hooks = how.hooks;
    const Hooks& of_model = model.spec().evaluation_hooks;
    hooks.insert(hooks.end(), of_model.begin(), of_model.end());
    const auto tell = [&](auto call, auto&&... arguments) {
      for (const auto& hook : hooks) ((*hook).*call)(session, arguments...);
    };
    tell(&SessionRunHook::begin);
    restore(model, checkpoint);
    tell(&SessionRunHook::after_create_session);
    const NoResults results;
    for (int64_t step = 0; !session.stop_requested() && (!how.steps || step < *how.steps); ++step) {
      tell(&SessionRunHook::before_run);
      const auto parts = input.next();
      if (!parts) break;
      (void)model.run(*parts);
      tell(&SessionRunHook::after_run, static_cast<const StepResults&>(results));
    }
    tell(&SessionRunHook::end);

    Evaluation evaluation{.metrics = {}, .global_step = global_step};
    evaluation.metrics["loss"] = model.mean_loss();
    for (const EvalMetric& metric : model.spec().eval_metrics) {
      evaluation.metrics[metric.name] = metric.value();
    }
    if (strategy.is_chief()) {
      const std::string folder =
          join_path(model_dir, how.name.empty() ? "eval" : "eval_" + how.name);
      summary::SummaryWriter writer = summary::create_file_writer(folder);
      for (const auto& [name, value] : evaluation.metrics) writer.scalar(name, value, global_step);
      if (checkpoint) writer.text("checkpoint_path", *checkpoint, global_step);
      writer.close();
    }
    return evaluation;
  });
}

}  // namespace strata::estimator
