#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/core/export.h"
#include "strata/estimator/estimator.h"
#include "strata/estimator/hooks.h"

namespace strata::estimator {

struct InMemoryEvaluatorOptions {
  std::optional<int64_t> steps = {};  ///< Batches of an evaluation; unset: all.
  Hooks hooks = {};                   ///< Of evaluations.
  std::string name = {};              ///< Events are in `eval_<name>`.
  int64_t every_n_iter = 100;         ///< Steps of training between two evaluations.
};

/// Evaluates the present values of training, without a checkpoint: when training begins, every so
/// many steps of the call, and at its end. In one process.
/// @throws Error  kInvalidArgument: every_n_iter below 1. kFailedPrecondition, when training
///   begins: a cluster of several workers. As Estimator::evaluate.
/// Source: tf.estimator.experimental.InMemoryEvaluatorHook.
class STRATA_API InMemoryEvaluatorHook : public SessionRunHook {
 public:
  InMemoryEvaluatorHook(const Estimator& estimator, InputFn input_fn,
                        InMemoryEvaluatorOptions options = {});

  void begin(Session& session) override;
  void after_create_session(Session& session) override;
  void after_run(Session& session, const StepResults& results) override;
  void end(Session& session) override;

  /// The last one; unset: there was none.
  const std::optional<Evaluation>& evaluation() const { return evaluation_; }

 private:
  void evaluate(Session& session);

  const Estimator estimator_;
  const InputFn input_fn_;
  const InMemoryEvaluatorOptions options_;
  int64_t iterations_ = 0;
  std::optional<Evaluation> evaluation_;
};

}  // namespace strata::estimator
