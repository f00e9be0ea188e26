#include "strata/estimator/in_memory_evaluator.h"

#include <utility>

#include "estimator/estimator_impl.h"
#include "strata/core/error.h"

namespace strata::estimator {

InMemoryEvaluatorHook::InMemoryEvaluatorHook(const Estimator& estimator, InputFn input_fn,
                                             InMemoryEvaluatorOptions options)
    : estimator_(estimator), input_fn_(std::move(input_fn)), options_(std::move(options)) {
  STRATA_CHECK(options_.every_n_iter > 0, kInvalidArgument,
               "[estimator] InMemoryEvaluatorHook: got every_n_iter ", options_.every_n_iter,
               "; expected 1 or more");
}

void InMemoryEvaluatorHook::begin(Session& session) {
  STRATA_CHECK(session.config().num_worker_replicas() <= 1, kFailedPrecondition,
               "[estimator] InMemoryEvaluatorHook: got a cluster of ",
               session.config().num_worker_replicas(),
               " workers; it supports one process: use the task evaluator");
  iterations_ = 0;
  evaluation_.reset();
}

void InMemoryEvaluatorHook::after_create_session(Session& session) { evaluate(session); }

void InMemoryEvaluatorHook::after_run(Session& session, const StepResults& /*results*/) {
  if (++iterations_ % options_.every_n_iter == 0) evaluate(session);
}

void InMemoryEvaluatorHook::end(Session& session) {
  if (evaluation_ && evaluation_->global_step == session.global_step()) return;
  evaluate(session);
}

void InMemoryEvaluatorHook::evaluate(Session& session) {
  const auto take_values = [&](detail::BuiltModel& model) {
    model.store().strategy().scope([&] {
      for (const auto& [name, evaluated] : model.store().variables()) {
        Variable variable = evaluated;
        const at::Tensor value = session.variable_value(name);
        // What evaluation alone has keeps its initial value, as with a checkpoint.
        if (value.defined()) variable.assign(value);
      }
    });
  };
  const EvaluateOptions how{
      .steps = options_.steps, .hooks = options_.hooks, .name = options_.name};
  evaluation_ =
      estimator_.impl()->evaluate(input_fn_, how, session.global_step(), std::nullopt, take_values);
}

}  // namespace strata::estimator
