#include <optional>
#include <string>
#include <utility>

#include "estimator/estimator_impl.h"
#include "estimator/hooked_steps.h"
#include "estimator/reading_session.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/summary/summary_writer.h"

namespace strata::estimator {
namespace {

constexpr ReadingSession::Call kEvaluate = {"evaluate", "has a loss at its end alone"};

}  // namespace

Evaluation Estimator::Impl::evaluate(const InputFn& input_fn, const EvaluateOptions& how) {
  const auto checkpoint = checkpoint_to_read(how.checkpoint_path);
  return evaluate(input_fn, how, checkpoint ? detail::step_of_checkpoint(*checkpoint) : 0,
                  checkpoint, [&](detail::BuiltModel& model) { restore(model, checkpoint); });
}

Evaluation Estimator::Impl::evaluate(
    const InputFn& input_fn, const EvaluateOptions& how, int64_t global_step,
    const std::optional<std::string>& checkpoint,
    const std::function<void(detail::BuiltModel& model)>& restore_values) {
  STRATA_CHECK(how.steps.value_or(1) > 0, kInvalidArgument, "[estimator] evaluate: got steps ",
               *how.steps, "; expected steps > 0, or none for all of the input");
  Strategy& strategy = detail::given_or_default(options.config.options().eval_distribute);
  return detail::with_other_processes(strategy, [&] {
    detail::BatchInput input(strategy, input_fn);
    detail::BuiltModel model(model_fn, strategy, options.config, options.params, Mode::kEval,
                             global_step, input.fields(), input.first());
    ReadingSession session(kEvaluate, options.config, global_step, strategy.is_chief());
    Hooks hooks = how.hooks;
    const Hooks& of_model = model.spec().evaluation_hooks;
    hooks.insert(hooks.end(), of_model.begin(), of_model.end());
    detail::HookedSteps steps(session, std::move(hooks));
    steps.begin();
    restore_values(model);
    steps.created();
    const auto run = [&](const detail::BuiltModel::Element& batch, const auto& made) {
      (void)model.run(batch);
      made(ReadingResults(kEvaluate));
      return true;
    };
    for (int64_t step = 0; !how.steps || step < *how.steps; ++step) {
      if (!steps.step(input, run)) break;
    }
    steps.end();

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
