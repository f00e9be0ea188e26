#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/optim/schedule.h"
#include "strata/runtime/variable.h"
#include "strata/tensor/update_rule.h"

namespace strata::optimizers {

/// What every optimizer can do to gradients and weights beside its rule. At most one kind of
/// clipping; all of them act on the reduced gradient. 0: off. Source: keras.optimizers.Optimizer.
///
/// Gradient accumulation. Every call of `minimize` counts as an iteration (a schedule sees all of
/// them); only each n-th changes the weights, by the mean of the n gradients. Each call's gradient
/// is first divided by that call's own weights (MinimizeOptions), as if it were a step: so, as in
/// Keras, a call with few examples counts as much as one with many. Where each example shall count
/// the same, leave this off, add up with plain `backward()`, and give the last call the weight of
/// all.
///
/// A list, as the options of each rule are (strata/tensor/rule_options.h says why).
#define STRATA_OPTIMIZER_OPTIONS(OPTION)                                 \
  /* Each variable's gradient to at most this norm. */                   \
  OPTION(double, clipnorm, 0)                                            \
  /* Each element to at most this magnitude. */                          \
  OPTION(double, clipvalue, 0)                                           \
  /* All gradients together to at most this norm. */                     \
  OPTION(double, global_clipnorm, 0)                                     \
  /* Keep a moving average of the weights. */                            \
  OPTION(bool, use_ema, false)                                           \
  /* average = ema_momentum * average + (1 - ema_momentum) * weights. */ \
  OPTION(double, ema_momentum, 0.99)                                     \
  /* Every so many updates the weights become the average. */            \
  OPTION(int64_t, ema_overwrite_frequency, 0)                            \
  /* Against underflow: times the loss, and gradients divided by it. */  \
  OPTION(double, loss_scale_factor, 0)                                   \
  /* 2 or more: update the weights in each n-th call. */                 \
  OPTION(int64_t, gradient_accumulation_steps, 0)

struct OptimizerOptions {
  schedules::Schedule learning_rate = 1e-3;
  double weight_decay = 0;  ///< w -= w * weight_decay * learning_rate, before the rule.
  STRATA_OPTIMIZER_OPTIONS(STRATA_OPTION)
};

struct MinimizeOptions {
  /// The weight of this replica's share in the step: the number of examples that `loss` is a sum
  /// over. The reduced gradient is divided by the sum of the weights of all replicas, so that each
  /// example counts the same, whatever the sizes of the replicas' batches. 0: `loss` is already
  /// divided (compute_average_loss with the global batch size does that).
  double weight = 0;
};

/// Trains variables: backward, reduction over the replicas and update in one call.
///
/// Parameters and slots lie in arenas, last variable first; the reduction and the update are one
/// vectorised pass over them, which the CPU replicas divide among themselves. A step costs two
/// meetings of the replicas. Sums follow the fixed tree, so the bits do not depend on how the
/// replicas are placed, on shared or unshared storage, or on who updates what.
///
/// Threads: by the replicas of the variables' strategy, inside `run`; every replica makes the same
/// calls. Variables of the default strategy: anywhere, one thread at a time.
/// Source: keras.optimizers.Optimizer under tf.distribute.
class STRATA_API Optimizer {
 public:
  Optimizer(Optimizer&&) noexcept;
  Optimizer& operator=(Optimizer&&) noexcept;
  virtual ~Optimizer();

  /// Takes `variables` for good and makes their slots. The constructors that take variables do
  /// this; one that was made without must be told before the first step.
  /// @throws Error  kInvalidArgument: none, one twice, of several strategies, not floating.
  ///                kFailedPrecondition: called by a replica function, or built before.
  void build(std::vector<Variable> variables);

  /// Runs backward from `loss` to this optimizer's variables alone, reduces the gradients (SUM)
  /// over the replicas and updates the variables. `.grad` of the variables, where something
  /// accumulated it before, is added and cleared. A variable that no replica's loss depends on
  /// keeps its value and slots; one that only some use gets their sum.
  ///
  /// @param loss  A scalar of this replica.
  /// @throws Error  kInvalidArgument: not a scalar, does not need gradients, negative weight.
  ///                kFailedPrecondition: cross-replica context; variables of another strategy; a
  ///                variable that was changed in place.
  void minimize(const at::Tensor& loss, const MinimizeOptions& options = {});

  /// The same from gradients at hand: one per variable, undefined where there is none; sparse ones
  /// (of an embedding) stay sparse until their rows are updated.
  void apply_gradients(std::vector<at::Tensor> gradients, const MinimizeOptions& options = {});

  /// The loss as `minimize` takes the gradient of: times `loss_scale_factor`, or the present
  /// dynamic scale. Only for those who call `backward()` themselves, before `minimize` or
  /// apply_gradients.
  at::Tensor scale_loss(const at::Tensor& loss) const;
  /// True for a LossScaleOptimizer, and the optimizer inside.
  bool scales_dynamically() const;

  /// Number of finished calls. (Keras's `iterations` counts updates: with gradient accumulation it
  /// is this divided by the number of calls an update.)
  int64_t iterations() const;
  void set_iterations(int64_t iterations);

  /// The rate of the next step. @throws Error kFailedPrecondition: it follows a schedule.
  double learning_rate() const;
  void set_learning_rate(double learning_rate);
  /// A schedule makes the rate; then it cannot be set.
  bool follows_schedule() const;

  /// Variables whose name contains one of `parts` keep out of weight decay ("bias"). Before the
  /// first step.
  void exclude_from_weight_decay(const std::vector<std::string>& parts);

  const std::vector<Variable>& variables() const;

  /// With `use_ema`: the weights become their averages, as `fit` does at its end. Outside `run`.
  /// Before the first step, and without `use_ema`, nothing happens.
  void finalize_variable_values();

  /// The state, for saving and comparing: for each variable in order each of `slot_names()`, as
  /// ("<variable>/<slot>", view of the values), then numbers of the whole optimizer ("u_product").
  /// Slots have the variable's shape (but Adafactor's rows and columns). Where workers share them
  /// out (`shard_optimizer_state`): copies, and a call of all workers together.
  std::vector<std::pair<std::string, at::Tensor>> slots() const;
  /// What is kept of each variable: the rule's, then "average" and "gradient_accumulator".
  std::vector<std::string> slot_names() const;
  /// Writes a slot on every replica, outside `run`; where there are several processes, all of them
  /// together. @param index  Its place in `slots()`.
  /// @throws Error  kOutOfRange. kInvalidArgument: another shape.
  void set_slot(size_t index, const at::Tensor& value);

  /// "sgd", "adam", as Keras names it.
  std::string_view name() const;

  /// For what is updated elsewhere, as rows on parameter servers are.
  const tensor::UpdateRule& rule() const;
  /// With the learning rate of `set_learning_rate`.
  const OptimizerOptions& common_options() const;

 protected:
  Optimizer(std::unique_ptr<tensor::UpdateRule> rule, OptimizerOptions options);

  /// Works on `other`'s variables and state, with a loss scale that adapts.
  Optimizer(Optimizer& other, double initial_scale, int64_t growth_steps);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace strata::optimizers
