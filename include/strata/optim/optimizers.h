#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/optim/optimizer.h"

/// Keras's optimizers with Keras's formulas and defaults (reference values in tests/golden).
/// strata/tensor/rule_options.h lists the options of each (STRATA_ADAM_OPTIONS), OptimizerOptions
/// those that all have.
namespace strata::optimizers {

/// Keeps braces from deducing a template's argument: `Adam({.learning_rate = 0.1})` means options.
template <typename T>
concept VariableVector = std::same_as<T, std::vector<Variable>>;

/// Splits an optimizer's options into the common options and the rule.
template <typename Options>
OptimizerOptions common_options_of(const Options& options) {
  OptimizerOptions common;
  common.learning_rate = options.learning_rate;
  common.weight_decay = options.weight_decay;
#define STRATA_COPY_OPTION(type, name, value) common.name = options.name;
  STRATA_OPTIMIZER_OPTIONS(STRATA_COPY_OPTION)
#undef STRATA_COPY_OPTION
  if constexpr (requires { options.leaves_out(); }) {
    common.leaves_out = options.leaves_out();
    common.left_out_weight_decay = options.left_out_weight_decay();
  }
  return common;
}
template <typename Options>
typename Options::Rule rule_of(const Options& options) {
  typename Options::Rule rule;
  rule.visit_options([](const char*, auto& to, const auto& from) { to = from; }, rule, options);
  return rule;
}

/// An optimizer that keeps the options it was made with.
/// @throws Error kInvalidArgument, in constructors: a value outside the range that Keras allows.
template <typename Options>
class ConfiguredOptimizer : public Optimizer {
 public:
  explicit ConfiguredOptimizer(const Options& options = {})
      : Optimizer(rule_of(options), common_options_of(options)), options_(options) {}
  /// Makes an optimizer and builds it with these variables.
  ConfiguredOptimizer(std::vector<Variable> variables, const Options& options)
      : ConfiguredOptimizer(options) {
    build(std::move(variables));
  }
  template <VariableVector V>
  explicit ConfiguredOptimizer(V variables)
      : ConfiguredOptimizer(std::move(variables), Options()) {}

  /// The options as given; the current rate is `learning_rate()`.
  const Options& options() const { return options_; }

  /// Keras's class name: "Adam".
  static std::string_view class_name() {
    return tensor::row_of(typename Options::Rule()).class_names.front();
  }

 private:
  Options options_;
};

struct SGDOptions {
  using Rule = tensor::SGDRule;
  schedules::Schedule learning_rate = 0.01;
  STRATA_SGD_OPTIONS(STRATA_OPTION)
  double weight_decay = 0;
  STRATA_OPTIMIZER_OPTIONS(STRATA_OPTION)
};

class STRATA_API SGD : public ConfiguredOptimizer<SGDOptions> {
 public:
  using ConfiguredOptimizer::ConfiguredOptimizer;
};

struct AdamOptions {
  using Rule = tensor::AdamRule;
  schedules::Schedule learning_rate = 1e-3;
  STRATA_ADAM_OPTIONS(STRATA_OPTION)
  double weight_decay = 0;
  STRATA_OPTIMIZER_OPTIONS(STRATA_OPTION)
};

class STRATA_API Adam : public ConfiguredOptimizer<AdamOptions> {
 public:
  using ConfiguredOptimizer::ConfiguredOptimizer;
};

struct AdamWOptions {
  using Rule = tensor::AdamRule;
  schedules::Schedule learning_rate = 1e-3;
  double weight_decay = 0.004;
  STRATA_ADAM_OPTIONS(STRATA_OPTION)
  STRATA_OPTIMIZER_OPTIONS(STRATA_OPTION)
};

class STRATA_API AdamW : public ConfiguredOptimizer<AdamWOptions> {
 public:
  using ConfiguredOptimizer::ConfiguredOptimizer;
  static std::string_view class_name() { return "AdamW"; }
};

struct AdagradOptions {
  using Rule = tensor::AdagradRule;
  schedules::Schedule learning_rate = 1e-3;
  STRATA_ADAGRAD_OPTIONS(STRATA_OPTION)
  double weight_decay = 0;
  STRATA_OPTIMIZER_OPTIONS(STRATA_OPTION)
};

class STRATA_API Adagrad : public ConfiguredOptimizer<AdagradOptions> {
 public:
  using ConfiguredOptimizer::ConfiguredOptimizer;
};

struct RMSpropOptions {
  using Rule = tensor::RMSpropRule;
  schedules::Schedule learning_rate = 1e-3;
  STRATA_RMSPROP_OPTIONS(STRATA_OPTION)
  double weight_decay = 0;
  STRATA_OPTIMIZER_OPTIONS(STRATA_OPTION)
};

class STRATA_API RMSprop : public ConfiguredOptimizer<RMSpropOptions> {
 public:
  using ConfiguredOptimizer::ConfiguredOptimizer;
};

struct AdadeltaOptions {
  using Rule = tensor::AdadeltaRule;
  schedules::Schedule learning_rate = 1e-3;
  STRATA_ADADELTA_OPTIONS(STRATA_OPTION)
  double weight_decay = 0;
  STRATA_OPTIMIZER_OPTIONS(STRATA_OPTION)
};

class STRATA_API Adadelta : public ConfiguredOptimizer<AdadeltaOptions> {
 public:
  using ConfiguredOptimizer::ConfiguredOptimizer;
};

struct FtrlOptions {
  using Rule = tensor::FtrlRule;
  schedules::Schedule learning_rate = 1e-3;
  STRATA_FTRL_OPTIONS(STRATA_OPTION)
  double weight_decay = 0;
  STRATA_OPTIMIZER_OPTIONS(STRATA_OPTION)
};

class STRATA_API Ftrl : public ConfiguredOptimizer<FtrlOptions> {
 public:
  using ConfiguredOptimizer::ConfiguredOptimizer;
};

struct AdamaxOptions {
  using Rule = tensor::AdamaxRule;
  schedules::Schedule learning_rate = 1e-3;
  STRATA_ADAMAX_OPTIONS(STRATA_OPTION)
  double weight_decay = 0;
  STRATA_OPTIMIZER_OPTIONS(STRATA_OPTION)
};

class STRATA_API Adamax : public ConfiguredOptimizer<AdamaxOptions> {
 public:
  using ConfiguredOptimizer::ConfiguredOptimizer;
};

struct NadamOptions {
  using Rule = tensor::NadamRule;
  schedules::Schedule learning_rate = 1e-3;
  STRATA_NADAM_OPTIONS(STRATA_OPTION)
  double weight_decay = 0;
  STRATA_OPTIMIZER_OPTIONS(STRATA_OPTION)
};

class STRATA_API Nadam : public ConfiguredOptimizer<NadamOptions> {
 public:
  using ConfiguredOptimizer::ConfiguredOptimizer;
};

struct LionOptions {
  using Rule = tensor::LionRule;
  schedules::Schedule learning_rate = 1e-3;
  STRATA_LION_OPTIONS(STRATA_OPTION)
  double weight_decay = 0;
  STRATA_OPTIMIZER_OPTIONS(STRATA_OPTION)
};

/// Steps of one size, by the sign of a momentum. Keras advises a smaller rate and a larger decay
/// than for Adam.
class STRATA_API Lion : public ConfiguredOptimizer<LionOptions> {
 public:
  using ConfiguredOptimizer::ConfiguredOptimizer;
};

struct LambOptions {
  using Rule = tensor::LambRule;
  schedules::Schedule learning_rate = 1e-3;
  STRATA_LAMB_OPTIONS(STRATA_OPTION)
  double weight_decay = 0;
  STRATA_OPTIMIZER_OPTIONS(STRATA_OPTION)
};

/// Adam whose step has the variable's norm times the rate. One replica does a whole variable.
class STRATA_API Lamb : public ConfiguredOptimizer<LambOptions> {
 public:
  using ConfiguredOptimizer::ConfiguredOptimizer;
};

struct STRATA_API LARSOptions {
  using Rule = tensor::LARSRule;
  schedules::Schedule learning_rate = 0.01;
  STRATA_LARS_OPTIONS(STRATA_OPTION)
  /// A variable whose name contains one of these has neither weight decay nor a rate of its own:
  /// `{"bias", "batch_normalization"}`.
  std::vector<std::string> skip_list = {};
  double weight_decay = 0;  ///< Added to the gradient, times the variable: MLPerf takes 1e-4.
  STRATA_OPTIMIZER_OPTIONS(STRATA_OPTION)

  std::function<bool(const Variable&)> leaves_out() const;
  double left_out_weight_decay() const { return 0; }
};

/// SGD with momentum, by a learning rate that is for each variable w with the gradient g multiplied
/// by eeta * |w| / (|g| + weight_decay * |w| + epsilon): for batches of thousands. One replica does
/// a whole variable. Keras has none; names and defaults are those of MLPerf's LARSOptimizer and
/// TensorFlow's official models.
/// Source: You, Gitman and Ginsburg, "Large Batch Training of Convolutional Networks", 2017.
class STRATA_API LARS : public ConfiguredOptimizer<LARSOptions> {
 public:
  using ConfiguredOptimizer::ConfiguredOptimizer;
};

struct STRATA_API MuonOptions {
  using Rule = tensor::MuonRule;
  schedules::Schedule learning_rate = 1e-3;
  STRATA_MUON_OPTIONS(STRATA_OPTION)
  /// Regular expressions: Adam updates a variable in whose name one is found.
  std::vector<std::string> exclude_layers = {};
  bool exclude_embeddings = true;    ///< Adam updates what has "embedding" in its name.
  double adam_weight_decay = 0.004;  ///< Of the variables that Adam updates.
  double weight_decay = 0.004;       ///< Of the others.
  STRATA_OPTIMIZER_OPTIONS(STRATA_OPTION)

  /// @throws Error kInvalidArgument: no regular expression.
  std::function<bool(const Variable&)> leaves_out() const;
  double left_out_weight_decay() const { return adam_weight_decay; }
};

/// Steps along the momentum of a matrix, whose singular values are all made about 1. Adam updates
/// what is no matrix, embeddings, and what `exclude_layers` names, such as the last layer. One
/// replica does a whole variable; six products of matrices an iteration, of which there are five.
class STRATA_API Muon : public ConfiguredOptimizer<MuonOptions> {
 public:
  using ConfiguredOptimizer::ConfiguredOptimizer;
};

struct ScheduleFreeAdamWOptions {
  using Rule = tensor::ScheduleFreeAdamWRule;
  schedules::Schedule learning_rate = 0.0025;
  STRATA_SCHEDULE_FREE_ADAMW_OPTIONS(STRATA_OPTION)
  double weight_decay = 0;
  STRATA_OPTIMIZER_OPTIONS(STRATA_OPTION)
};

/// Adam without a schedule: the weights are between a sequence that gradients move and its average.
/// The slot "momentum" is that sequence, which begins as the variables are in `build`.
class STRATA_API ScheduleFreeAdamW : public ConfiguredOptimizer<ScheduleFreeAdamWOptions> {
 public:
  using ConfiguredOptimizer::ConfiguredOptimizer;
};

struct AdafactorOptions {
  using Rule = tensor::AdafactorRule;
  schedules::Schedule learning_rate = 1e-3;
  STRATA_ADAFACTOR_OPTIONS(STRATA_OPTION)
  bool relative_step = true;  ///< Taken as Keras takes it: it changes nothing.
  double weight_decay = 0;
  STRATA_OPTIMIZER_OPTIONS(STRATA_OPTION)
};

/// Second moments as means of rows and columns (the last two dimensions). One replica does a whole
/// variable; it must be contiguous.
class STRATA_API Adafactor : public ConfiguredOptimizer<AdafactorOptions> {
 public:
  using ConfiguredOptimizer::ConfiguredOptimizer;
};

/// All optimizers that names and Keras's files can refer to.
template <typename... Optimizers>
struct OptimizerList {};
using AllOptimizers = OptimizerList<SGD, Adam, AdamW, Adagrad, RMSprop, Adadelta, Ftrl, Adamax,
                                    Nadam, Lion, Lamb, LARS, Muon, ScheduleFreeAdamW, Adafactor>;

// The names of version 0.1, for one version more.
using SgdOptions [[deprecated("use SGDOptions")]] = SGDOptions;
using Sgd [[deprecated("use SGD")]] = SGD;
using RmspropOptions [[deprecated("use RMSpropOptions")]] = RMSpropOptions;
using Rmsprop [[deprecated("use RMSprop")]] = RMSprop;

}  // namespace strata::optimizers
