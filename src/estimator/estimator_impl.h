#pragma once

#include <any>
#include <functional>
#include <optional>
#include <string>

#include "estimator/built_model.h"
#include "runtime/replica_group.h"
#include "strata/estimator/estimator.h"

namespace strata::estimator {

/// Checkpoints are `model.ckpt-<global step>`.
inline constexpr const char* kCheckpointName = "model.ckpt";

class Estimator::Impl {
 public:
  Impl(ModelFn model_fn, EstimatorOptions options);

  void train(Strategy& strategy, const InputFn& input_fn, const TrainOptions& options);
  Evaluation evaluate(const InputFn& input_fn, const EvaluateOptions& options);
  /// Of the values that `restore` gives the model, which has been trained for `global_step` steps.
  Evaluation evaluate(const InputFn& input_fn, const EvaluateOptions& options, int64_t global_step,
                      const std::optional<std::string>& checkpoint,
                      const std::function<void(detail::BuiltModel& model)>& restore);

  std::optional<std::string> latest_checkpoint() const;
  /// Returns `path` if it is not empty, else the path of the newest checkpoint in model_dir, if any.
  /// @throws Error kNotFound: no checkpoint at `path`.
  std::optional<std::string> checkpoint_to_read(const std::string& path) const;
  /// Restores a model's variables, or, without a checkpoint, has it start warm.
  void restore(detail::BuiltModel& model, const std::optional<std::string>& checkpoint) const;

  const ModelFn model_fn;
  EstimatorOptions options;
  std::string model_dir;
};

namespace detail {

/// The number at the end of a checkpoint's name.
int64_t step_of_checkpoint(const std::string& path);

/// Values of another checkpoint become those of the model's variables.
/// @param global_step  Set where the settings ask for it.
/// @throws Error kNotFound, kInvalidArgument: a chosen variable is missing there, or has another
/// shape.
void warm_start(BuiltModel& model, const WarmStartSettings& settings, int64_t& global_step);

/// `given`, or the default strategy if it is null.
inline Strategy& given_or_default(Strategy* given) {
  return given != nullptr ? *given : static_cast<Strategy&>(default_strategy());
}

/// The largest of all processes' values; each calls it.
int64_t agree_on_largest(Strategy& strategy, int64_t value);

/// `body`, whose errors reach the strategy's other processes: they may be waiting for this one.
template <typename Body>
auto with_other_processes(Strategy& strategy, const Body& body) {
  try {
    return body();
  } catch (...) {
    strategy.group().fail_step(Status::from_current_exception());
    throw;
  }
}

}  // namespace detail
}  // namespace strata::estimator
