#pragma once

#include <any>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "strata/checkpoint/tracked.h"
#include "strata/estimator/estimator_spec.h"
#include "strata/estimator/run_config.h"
#include "strata/keras/layer.h"
#include "strata/optim/optimizer.h"
#include "strata/runtime/variable.h"
#include "strata/strategies/strategy.h"

namespace strata::estimator::detail {

/// A variable with its name in checkpoints, which is that of the program's layer and not of the
/// layer's class.
struct NamedVariable {
  std::string name;
  Variable variable;
};

/// What the first call of a model_fn has made, by name. The later calls, on all replicas at once,
/// read it.
class ModelStore {
 public:
  ModelStore(Strategy& strategy, const RunConfig& config, const std::any& params, Mode mode,
             int64_t global_step)
      : strategy_(strategy),
        config_(config),
        params_(params),
        mode_(mode),
        global_step_(global_step) {}

  Strategy& strategy() const { return strategy_; }
  const RunConfig& config() const { return config_; }
  const std::any& params() const { return params_; }
  Mode mode() const { return mode_; }
  int64_t global_step() const { return global_step_; }

  /// Null: it is to be made now. @throws Error as ModelContext::layer.
  const std::any* find(const std::string& name, const std::type_info& type, bool building) const;
  void add(const std::string& name, std::any handle);
  void add_layer(const std::string& name, const keras::Layer& layer);
  void add_variable(const Variable& variable) {
    makers_.push_back({.name = variable.name(), .variable = variable});
  }
  void add_optimizer(const std::string& name, optimizers::AnyOptimizer optimizer,
                     std::string prefix);
  void add_reset(std::function<void()> reset) { resets_.push_back(std::move(reset)); }

  /// Ends the first call: optimizers get their variables.
  /// @throws Error kInvalidArgument: two variables of one name; an optimizer without variables.
  void finish();
  void reset_metrics() const;
  /// Of all layers' weights, on this replica; undefined without any.
  at::Tensor penalties() const;

  const std::vector<NamedVariable>& variables() const { return variables_; }
  const std::vector<std::pair<std::string, optimizers::AnyOptimizer>>& optimizers() const {
    return optimizers_;
  }
  /// `<variable>/<slot>`, of a name that Optimizer::slots gives.
  std::string slot_name(const std::string& name) const;
  /// For checkpoints: the variables, and an optimizer, by these names.
  Tracked tracked_variables() const;
  /// Those that no optimizer trains.
  Tracked tracked_untrained_variables() const;
  Tracked tracked(optimizers::Optimizer& optimizer) const;

 private:
  Strategy& strategy_;
  const RunConfig& config_;
  const std::any& params_;
  const Mode mode_;
  const int64_t global_step_;

  std::map<std::string, std::any, std::less<>> handles_;
  /// A layer, or a variable, in the order of their making.
  struct Maker {
    std::string name;
    std::optional<keras::Layer> layer = {};
    std::optional<Variable> variable = {};
  };
  void collect(const std::string& name, const keras::Layer& layer);
  void add_named(const std::string& name, const Variable& variable);

  std::vector<Maker> makers_;
  std::vector<NamedVariable> variables_;
  std::vector<std::pair<std::string, optimizers::AnyOptimizer>> optimizers_;
  std::vector<std::string> prefixes_;  // of each optimizer
  std::vector<std::function<void()>> resets_;
};

}  // namespace strata::estimator::detail
