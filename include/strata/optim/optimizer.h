#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/optim/schedule.h"
#include "strata/runtime/variable.h"
#include "strata/tensor/rule_options.h"

namespace strata::optimizers {

class ShippedUpdate;

/// Options that every optimizer has beside its rule's. At most one kind of clipping may be set; all
/// act on the reduced gradient. 0: off. Source: keras.optimizers.Optimizer.
///
/// Gradient accumulation: every call of `minimize` counts as an iteration (a schedule sees all of
/// them); only each n-th changes the weights, by the mean of the n gradients. Each call's gradient
/// is first divided by that call's own weights (MinimizeOptions), as if it were a step: so, as in
/// Keras, a call with few examples counts as much as one with many. To count each example the same,
/// leave this off, accumulate with plain `backward()`, and give the last call the weight of all.
///
/// touched_rows_only is about gradients of rows (embeddings with sparse gradients, categorical
/// columns): a step costs what the rows in its batch cost, and not what the table does. Keras 3
/// updates all rows; TensorFlow's older optimizers but Adam touch those with a gradient
/// (optimizers::legacy), and tfa.LazyAdam and torch.optim.SparseAdam are Adam with it. Not together
/// with gradient_accumulation_steps, whose sums are dense, nor of a rule of whole variables. On
/// parameter servers a ServerEmbedding is always updated so, and a variable with all of its rows (a
/// warning says so), as on TPUs.
///
/// They are a macro's list, like the options of each rule (strata/tensor/rule_options.h).
#define STRATA_OPTIMIZER_OPTIONS(OPTION)                                  \
  /* The largest norm of each variable's gradient. */                     \
  OPTION(double, clipnorm, 0)                                             \
  /* The largest magnitude of each element. */                            \
  OPTION(double, clipvalue, 0)                                            \
  /* The largest norm of all gradients together. */                       \
  OPTION(double, global_clipnorm, 0)                                      \
  /* Keeps a moving average of the weights. */                            \
  OPTION(bool, use_ema, false)                                            \
  /* average = ema_momentum * average + (1 - ema_momentum) * weights. */  \
  OPTION(double, ema_momentum, 0.99)                                      \
  /* The number of updates after which the weights become the average. */ \
  OPTION(int64_t, ema_overwrite_frequency, 0)                             \
  /* Against underflow: scales the loss; gradients are divided by it. */  \
  OPTION(double, loss_scale_factor, 0)                                    \
  /* 2 or more: updates the weights in each n-th call. */                 \
  OPTION(int64_t, gradient_accumulation_steps, 0)                         \
  /* Rows of an embedding without a gradient, and their slots, stay. */   \
  OPTION(bool, touched_rows_only, false)

struct OptimizerOptions {
  schedules::Schedule learning_rate = 1e-3;
  double weight_decay = 0;  ///< w -= w * weight_decay * learning_rate, before the rule.
  STRATA_OPTIMIZER_OPTIONS(STRATA_OPTION)
  /// Which variables an optimizer leaves out of what it does to whole variables: their rule is
  /// tensor::rule_of_left_out. LARS and Muon set it; empty: none.
  std::function<bool(const Variable&)> leaves_out = {};
  double left_out_weight_decay = 0;  ///< The weight decay of these.
};

struct MinimizeOptions {
  /// The weight of this replica's share in the step: the number of examples that `loss` is a sum
  /// over. The reduced gradient is divided by the sum of the weights of all replicas, so that each
  /// example counts the same, whatever the sizes of the replicas' batches. 0: `loss` is already
  /// divided (by compute_average_loss with the global batch size).
  double weight = 0;
};

/// Trains variables: backward, reduction over the replicas and update in one call.
///
/// Parameters and slots are in arenas, last variable first; the reduction and the update are one
/// vectorised pass over them, which the CPU replicas divide among themselves. A step has two
/// barriers. Sums follow the fixed tree, so the bits do not depend on the placement of replicas, on
/// shared or unshared storage, or on which replica updates what.
///
/// Threads: the replicas of the variables' strategy, inside `run`; every replica makes the same
/// calls. For variables of the default strategy: any, one thread at a time.
/// Source: keras.optimizers.Optimizer under tf.distribute.
class STRATA_API Optimizer {
 public:
  Optimizer(Optimizer&&) noexcept;
  Optimizer& operator=(Optimizer&&) noexcept;
  virtual ~Optimizer();

  /// Sets `variables` for good and makes their slots. The constructors that take variables call
  /// this; for one made without, call it before the first step.
  /// @throws Error  kInvalidArgument: none, one twice, of several strategies, not floating.
  ///                kFailedPrecondition: called by a replica function, or built before.
  void build(std::vector<Variable> variables);

  /// Runs backward from `loss` to this optimizer's variables alone, reduces the gradients (SUM)
  /// over the replicas and updates the variables. Gradients that were accumulated in `.grad` before
  /// are added and cleared. A variable that no replica's loss depends on keeps its value and slots;
  /// a variable that only some replicas use gets their sum.
  ///
  /// @param loss  A scalar of this replica.
  /// @throws Error  kInvalidArgument: not a scalar, does not need gradients, negative weight.
  ///                kFailedPrecondition: cross-replica context; variables of another strategy; a
  ///                variable that was changed in place.
  void minimize(const at::Tensor& loss, const MinimizeOptions& options = {});

  /// Does the same with given gradients: one per variable, undefined where it has none; sparse ones
  /// (of an embedding) stay sparse until their rows are updated.
  void apply_gradients(std::vector<at::Tensor> gradients, const MinimizeOptions& options = {});

  /// Returns the loss that `minimize` differentiates: times `loss_scale_factor`, or the current
  /// dynamic scale. Needed only with `backward()` before `minimize` or apply_gradients.
  at::Tensor scale_loss(const at::Tensor& loss) const;
  /// True for a LossScaleOptimizer, and for the optimizer inside it.
  bool scales_dynamically() const;

  /// The number of finished calls. (Keras's `iterations` counts updates: with gradient accumulation
  /// it is this divided by the number of calls per update.)
  int64_t iterations() const;
  void set_iterations(int64_t iterations);

  /// The rate of the next step. @throws Error kFailedPrecondition: it follows a schedule.
  double learning_rate() const;
  void set_learning_rate(double learning_rate);
  /// True if the rate follows a schedule; then it cannot be set.
  bool follows_schedule() const;

  /// Excludes variables whose name contains one of `parts` ("bias") from weight decay. Call it
  /// before the first step.
  void exclude_from_weight_decay(const std::vector<std::string>& parts);

  const std::vector<Variable>& variables() const;

  /// With `use_ema`, replaces the weights by their averages, as `fit` does at its end. Call it
  /// outside `run`. Before the first step, and without `use_ema`, it does nothing.
  void finalize_variable_values();

  /// The state, for saving and comparing: for each variable in order each of its `slot_names`, as
  /// ("<variable>/<slot>", view of the values), then numbers of the whole optimizer ("u_product").
  /// Slots have the variable's shape (except Adafactor's rows and columns). If workers or cards shard
  /// them (`shard_optimizer_state`), they are copies, on the host, and all workers make this call together.
  /// @throws Error  kFailedPrecondition: what a lost worker's cards had of them is to be restored first.
  std::vector<std::pair<std::string, at::Tensor>> slots() const;
  /// The names of each variable's slots: the rule's, then "average" and "gradient_accumulator".
  std::vector<std::string> slot_names() const;
  /// The same of one of `variables()`: Muon's have other slots where Adam updates them.
  std::vector<std::string> slot_names(size_t variable) const;
  /// Writes a slot on every replica, outside `run`; several processes make this call together.
  /// @param index  Its place in `slots()`.
  /// @throws Error  kOutOfRange. kInvalidArgument: another shape.
  void set_slot(size_t index, const at::Tensor& value);

  /// Keras's name: "sgd", "adam".
  std::string_view name() const;

  /// For variables that are updated elsewhere, such as rows on parameter servers.
  const tensor::UpdateRule& rule() const;
  /// Has the learning rate of `set_learning_rate`.
  const OptimizerOptions& common_options() const;

 protected:
  Optimizer(const tensor::RuleOptions& rule, OptimizerOptions options);

  /// Uses `other`'s variables and state, with a loss scale that adapts.
  Optimizer(Optimizer& other, double initial_scale, int64_t growth_steps);

 private:
  friend ShippedUpdate& shipped_update_of(const Optimizer& optimizer);
  class Impl;
  std::shared_ptr<Impl> impl_;
};

/// Makes an optimizer with Keras's defaults by its name, in any case: "adam", "sgd", "RMSprop".
/// @throws Error kInvalidArgument: no such optimizer; lists the known ones.
STRATA_API std::unique_ptr<Optimizer> make_optimizer(std::string_view name);

/// An optimizer as options take it: `Adam({.learning_rate = 0.01})`, a shared_ptr, or a name. A
/// handle: copies are the same optimizer. The default is no optimizer.
class AnyOptimizer {
 public:
  AnyOptimizer() = default;

  // Takes rvalues of a derived class only: an lvalue's O is a reference.
  // NOLINTBEGIN(google-explicit-constructor,bugprone-*forwarding-reference*)
  template <typename O>
  requires std::derived_from<O, Optimizer> &&(!std::is_const_v<O>)AnyOptimizer(O&& optimizer)
      : optimizer_(std::make_shared<O>(std::move(optimizer))) {}
  // NOLINTEND(google-explicit-constructor,bugprone-*forwarding-reference*)
  AnyOptimizer(std::shared_ptr<Optimizer> optimizer)  // NOLINT(google-explicit-constructor)
      : optimizer_(std::move(optimizer)) {}
  template <typename O>
  requires std::derived_from<O, Optimizer> AnyOptimizer(
      std::shared_ptr<O> optimizer)  // NOLINT(google-explicit-constructor)
      : optimizer_(std::move(optimizer)) {}
  template <typename O>
  requires std::derived_from<O, Optimizer> AnyOptimizer(
      std::unique_ptr<O> optimizer)  // NOLINT(google-explicit-constructor)
      : optimizer_(std::move(optimizer)) {}
  /// @throws Error as make_optimizer.
  AnyOptimizer(const char* name)  // NOLINT(google-explicit-constructor)
      : optimizer_(make_optimizer(name)) {}
  AnyOptimizer(const std::string& name)  // NOLINT(google-explicit-constructor)
      : optimizer_(make_optimizer(name)) {}

  explicit operator bool() const { return optimizer_ != nullptr; }
  Optimizer& operator*() const { return *optimizer_; }
  Optimizer* operator->() const { return optimizer_.get(); }
  const std::shared_ptr<Optimizer>& shared() const { return optimizer_; }

 private:
  std::shared_ptr<Optimizer> optimizer_;
};

}  // namespace strata::optimizers
