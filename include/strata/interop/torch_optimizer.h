#pragma once

#include <torch/optim/optimizer.h>

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "strata/checkpoint/state.h"
#include "strata/core/export.h"
#include "strata/optim/optimizer.h"
#include "strata/runtime/variable.h"

namespace torch::optim {
class LBFGS;
}

namespace strata::interop {

struct TorchStepOptions {
  /// The weight of this replica's gradient: the number of examples that its loss is the mean over.
  /// With it, parts of different sizes give the gradient of one device on the whole batch; a
  /// replica with 0 examples passes 0, and its gradient is ignored.
  double weight = 1;
};

/// Variables with options of their own, as torch::optim::OptimizerParamGroup.
struct TorchParamGroup {
  std::vector<Variable> variables;
  std::shared_ptr<torch::optim::OptimizerOptions> options;  ///< Null: the optimizer's.

  explicit TorchParamGroup(std::vector<Variable> variables) : variables(std::move(variables)) {}
  template <typename Options>
  TorchParamGroup(std::vector<Variable> variables, Options options)
      : variables(std::move(variables)), options(std::make_shared<Options>(std::move(options))) {}
};

/// True for optimizers that evaluate the loss themselves, several times a step.
template <typename TorchOptim>
inline constexpr bool kNeedsClosure = std::is_same_v<TorchOptim, torch::optim::LBFGS>;

namespace detail {

/// The part of TorchOptimizer that does not depend on the optimizer's type.
class STRATA_API TorchOptimizerCore {
 public:
  using Optimizer = torch::optim::Optimizer;
  using Make =
      std::function<std::unique_ptr<Optimizer>(std::vector<torch::optim::OptimizerParamGroup>)>;

  TorchOptimizerCore(const std::vector<TorchParamGroup>& groups, const Make& make);
  TorchOptimizerCore(TorchOptimizerCore&&) noexcept;
  TorchOptimizerCore& operator=(TorchOptimizerCore&&) noexcept;
  ~TorchOptimizerCore();

  void minimize(const at::Tensor& loss, const optimizers::MinimizeOptions& options);
  void step(const TorchStepOptions& options);
  void zero_grad();

  Optimizer& front() const;
  const std::vector<Variable>& variables() const;
  Optimizer& owner_of(const Variable& variable) const;
  std::shared_ptr<Trackable> tracked() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace detail

/// A torch::optim optimizer under a strategy, unchanged: Adam, AdamW, SGD, RMSprop, Adagrad, or a
/// class derived from torch::optim::Optimizer with their constructors.
///
///     interop::TorchOptimizer<torch::optim::Adam> adam(net.variables(),
///                                                      torch::optim::AdamOptions(1e-3));
///
/// Gradients are added over the replicas in the fixed tree order (or by the strategy's
/// CrossDeviceOps); those of replicas that have a GPU each on the cards, in `minimize` while backward still
/// runs (docs/gpu.md). Each replica's own instance then updates its share of the variables, divided by
/// bytes; CPU replicas that share storage are then done, others copy the result. Sparse gradients
/// stay sparse.
///
/// Threads: `minimize`, `step`: the replicas, inside `run`; every replica makes the same calls.
/// Cost: libtorch's own update, divided by the replicas; strata::optimizers are faster.
/// Source: torch::optim.
template <typename TorchOptim>
class TorchOptimizer {
  static_assert(
      !kNeedsClosure<TorchOptim>,
      "torch::optim::LBFGS evaluates the loss several times a step through a closure, which "
      "replicas cannot do in step; use Adam, AdamW, SGD, RMSprop or Adagrad");

 public:
  /// @throws Error  kInvalidArgument: no variables, one twice, not floating. kFailedPrecondition:
  ///     variables of several strategies; called by a replica function.
  template <typename Options>
  TorchOptimizer(std::vector<Variable> variables, Options options)
      : TorchOptimizer(std::vector<TorchParamGroup>{TorchParamGroup(std::move(variables))},
                       std::move(options)) {}

  template <typename Options>
  TorchOptimizer(const std::vector<TorchParamGroup>& groups, Options options)
      : core_(groups, [&](std::vector<torch::optim::OptimizerParamGroup> tensors) {
          return std::make_unique<TorchOptim>(std::move(tensors), options);
        }) {}

  /// Runs backward from `loss` to the variables, sums the gradients over the replicas, and updates;
  /// as strata::optimizers::Optimizer::minimize, `weight` included.
  void minimize(const at::Tensor& loss, const optimizers::MinimizeOptions& options = {}) {
    core_.minimize(loss, options);
  }

  /// For loops written for one device, which call `loss.backward()` themselves and whose loss is
  /// the mean over their batch: updates with the (weighted) MEAN of the replicas' `.grad`, and
  /// leaves `.grad`.
  void step(const TorchStepOptions& options = {}) { core_.step(options); }

  /// Clears the gradients of this replica, or outside `run` of all.
  void zero_grad() { core_.zero_grad(); }

  /// The options in effect, which may be changed between runs: learning rates, also by
  /// torch::optim's schedulers. This instance is never stepped, so it has no state.
  TorchOptim& optimizer() { return static_cast<TorchOptim&>(core_.front()); }
  std::vector<torch::optim::OptimizerParamGroup>& param_groups() {
    return core_.front().param_groups();
  }

  /// The instance that updates `variable`, with its state.
  /// @throws Error  kNotFound: not a variable of this optimizer.
  TorchOptim& optimizer_of(const Variable& variable) {
    return static_cast<TorchOptim&>(core_.owner_of(variable));
  }

  const std::vector<Variable>& variables() const { return core_.variables(); }

  /// The state for a checkpoint: `Checkpoint({{"model", net}, {"optimizer", adam}})`. It has the
  /// learning rate of each group, and libtorch's state of each variable, by its name, so that other
  /// replicas may continue. Other options are the program's. It refers to this object, which must
  /// outlive it.
  /// @throws Error  kUnimplemented: a user-defined class.
  std::shared_ptr<Trackable> tracked() const { return core_.tracked(); }

 private:
  detail::TorchOptimizerCore core_;
};

}  // namespace strata::interop
