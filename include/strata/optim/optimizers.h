#pragma once

#include <concepts>
#include <memory>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/optim/optimizer.h"

/// Keras's optimizers with Keras's formulas and defaults (reference values in tests/golden).
/// OptimizerOptions documents the options that all of them have.
namespace strata::optimizers {

/// Keeps braces from deducing a template's argument: `Adam({.learning_rate = 0.1})` means options.
template <typename T>
concept VariableVector = std::same_as<T, std::vector<Variable>>;

/// An optimizer that keeps the options it was made with.
template <typename Options>
class ConfiguredOptimizer : public Optimizer {
 public:
  /// The options as given; the current rate is `learning_rate()`.
  const Options& options() const { return options_; }

 protected:
  ConfiguredOptimizer(std::unique_ptr<tensor::UpdateRule> rule, OptimizerOptions common,
                      Options options)
      : Optimizer(std::move(rule), std::move(common)), options_(std::move(options)) {}

 private:
  Options options_;
};

struct SGDOptions {
  schedules::Schedule learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double clipnorm = 0;
  double clipvalue = 0;
  double global_clipnorm = 0;
  bool use_ema = false;
  double ema_momentum = 0.99;
  int64_t ema_overwrite_frequency = 0;
  double loss_scale_factor = 0;
  int64_t gradient_accumulation_steps = 0;
};

class STRATA_API SGD : public ConfiguredOptimizer<SGDOptions> {
 public:
  explicit SGD(const SGDOptions& options = {});
  SGD(std::vector<Variable> variables, const SGDOptions& options);
  template <VariableVector V>
  explicit SGD(V variables) : SGD(std::move(variables), SGDOptions()) {}
};

struct AdamOptions {
  schedules::Schedule learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
  double weight_decay = 0;
  double clipnorm = 0;
  double clipvalue = 0;
  double global_clipnorm = 0;
  bool use_ema = false;
  double ema_momentum = 0.99;
  int64_t ema_overwrite_frequency = 0;
  double loss_scale_factor = 0;
  int64_t gradient_accumulation_steps = 0;
};

class STRATA_API Adam : public ConfiguredOptimizer<AdamOptions> {
 public:
  explicit Adam(const AdamOptions& options = {});
  Adam(std::vector<Variable> variables, const AdamOptions& options);
  template <VariableVector V>
  explicit Adam(V variables) : Adam(std::move(variables), AdamOptions()) {}
};

struct AdamWOptions {
  schedules::Schedule learning_rate = 1e-3;
  double weight_decay = 0.004;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
  double clipnorm = 0;
  double clipvalue = 0;
  double global_clipnorm = 0;
  bool use_ema = false;
  double ema_momentum = 0.99;
  int64_t ema_overwrite_frequency = 0;
  double loss_scale_factor = 0;
  int64_t gradient_accumulation_steps = 0;
};

class STRATA_API AdamW : public ConfiguredOptimizer<AdamWOptions> {
 public:
  explicit AdamW(const AdamWOptions& options = {});
  AdamW(std::vector<Variable> variables, const AdamWOptions& options);
  template <VariableVector V>
  explicit AdamW(V variables) : AdamW(std::move(variables), AdamWOptions()) {}
};

struct AdagradOptions {
  schedules::Schedule learning_rate = 1e-3;
  double initial_accumulator_value = 0.1;
  double epsilon = 1e-7;
  double weight_decay = 0;
  double clipnorm = 0;
  double clipvalue = 0;
  double global_clipnorm = 0;
  bool use_ema = false;
  double ema_momentum = 0.99;
  int64_t ema_overwrite_frequency = 0;
  double loss_scale_factor = 0;
  int64_t gradient_accumulation_steps = 0;
};

class STRATA_API Adagrad : public ConfiguredOptimizer<AdagradOptions> {
 public:
  explicit Adagrad(const AdagradOptions& options = {});
  Adagrad(std::vector<Variable> variables, const AdagradOptions& options);
  template <VariableVector V>
  explicit Adagrad(V variables) : Adagrad(std::move(variables), AdagradOptions()) {}
};

struct RMSpropOptions {
  schedules::Schedule learning_rate = 1e-3;
  double rho = 0.9;
  double momentum = 0;
  double epsilon = 1e-7;
  bool centered = false;
  double weight_decay = 0;
  double clipnorm = 0;
  double clipvalue = 0;
  double global_clipnorm = 0;
  bool use_ema = false;
  double ema_momentum = 0.99;
  int64_t ema_overwrite_frequency = 0;
  double loss_scale_factor = 0;
  int64_t gradient_accumulation_steps = 0;
};

class STRATA_API RMSprop : public ConfiguredOptimizer<RMSpropOptions> {
 public:
  explicit RMSprop(const RMSpropOptions& options = {});
  RMSprop(std::vector<Variable> variables, const RMSpropOptions& options);
  template <VariableVector V>
  explicit RMSprop(V variables) : RMSprop(std::move(variables), RMSpropOptions()) {}
};

struct AdadeltaOptions {
  schedules::Schedule learning_rate = 1e-3;
  double rho = 0.95;
  double epsilon = 1e-7;
  double weight_decay = 0;
  double clipnorm = 0;
  double clipvalue = 0;
  double global_clipnorm = 0;
  bool use_ema = false;
  double ema_momentum = 0.99;
  int64_t ema_overwrite_frequency = 0;
  double loss_scale_factor = 0;
  int64_t gradient_accumulation_steps = 0;
};

class STRATA_API Adadelta : public ConfiguredOptimizer<AdadeltaOptions> {
 public:
  explicit Adadelta(const AdadeltaOptions& options = {});
  Adadelta(std::vector<Variable> variables, const AdadeltaOptions& options);
  template <VariableVector V>
  explicit Adadelta(V variables) : Adadelta(std::move(variables), AdadeltaOptions()) {}
};

struct FtrlOptions {
  schedules::Schedule learning_rate = 1e-3;
  double learning_rate_power = -0.5;
  double initial_accumulator_value = 0.1;
  double l1_regularization_strength = 0;
  double l2_regularization_strength = 0;
  double l2_shrinkage_regularization_strength = 0;
  double beta = 0;
  double weight_decay = 0;
  double clipnorm = 0;
  double clipvalue = 0;
  double global_clipnorm = 0;
  bool use_ema = false;
  double ema_momentum = 0.99;
  int64_t ema_overwrite_frequency = 0;
  double loss_scale_factor = 0;
  int64_t gradient_accumulation_steps = 0;
};

class STRATA_API Ftrl : public ConfiguredOptimizer<FtrlOptions> {
 public:
  explicit Ftrl(const FtrlOptions& options = {});
  Ftrl(std::vector<Variable> variables, const FtrlOptions& options);
  template <VariableVector V>
  explicit Ftrl(V variables) : Ftrl(std::move(variables), FtrlOptions()) {}
};

struct AdamaxOptions {
  schedules::Schedule learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  double weight_decay = 0;
  double clipnorm = 0;
  double clipvalue = 0;
  double global_clipnorm = 0;
  bool use_ema = false;
  double ema_momentum = 0.99;
  int64_t ema_overwrite_frequency = 0;
  double loss_scale_factor = 0;
  int64_t gradient_accumulation_steps = 0;
};

class STRATA_API Adamax : public ConfiguredOptimizer<AdamaxOptions> {
 public:
  explicit Adamax(const AdamaxOptions& options = {});
  Adamax(std::vector<Variable> variables, const AdamaxOptions& options);
  template <VariableVector V>
  explicit Adamax(V variables) : Adamax(std::move(variables), AdamaxOptions()) {}
};

struct NadamOptions {
  schedules::Schedule learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  double weight_decay = 0;
  double clipnorm = 0;
  double clipvalue = 0;
  double global_clipnorm = 0;
  bool use_ema = false;
  double ema_momentum = 0.99;
  int64_t ema_overwrite_frequency = 0;
  double loss_scale_factor = 0;
  int64_t gradient_accumulation_steps = 0;
};

class STRATA_API Nadam : public ConfiguredOptimizer<NadamOptions> {
 public:
  explicit Nadam(const NadamOptions& options = {});
  Nadam(std::vector<Variable> variables, const NadamOptions& options);
  template <VariableVector V>
  explicit Nadam(V variables) : Nadam(std::move(variables), NadamOptions()) {}
};

struct LionOptions {
  schedules::Schedule learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.99;
  double weight_decay = 0;
  double clipnorm = 0;
  double clipvalue = 0;
  double global_clipnorm = 0;
  bool use_ema = false;
  double ema_momentum = 0.99;
  int64_t ema_overwrite_frequency = 0;
  double loss_scale_factor = 0;
  int64_t gradient_accumulation_steps = 0;
};

/// Steps of one size, by the sign of a momentum. Keras advises a smaller rate and a larger decay
/// than for Adam.
class STRATA_API Lion : public ConfiguredOptimizer<LionOptions> {
 public:
  explicit Lion(const LionOptions& options = {});
  Lion(std::vector<Variable> variables, const LionOptions& options);
  template <VariableVector V>
  explicit Lion(V variables) : Lion(std::move(variables), LionOptions()) {}
};

struct LambOptions {
  schedules::Schedule learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  double weight_decay = 0;
  double clipnorm = 0;
  double clipvalue = 0;
  double global_clipnorm = 0;
  bool use_ema = false;
  double ema_momentum = 0.99;
  int64_t ema_overwrite_frequency = 0;
  double loss_scale_factor = 0;
  int64_t gradient_accumulation_steps = 0;
};

/// Adam whose step has the variable's norm times the rate. One replica does a whole variable.
class STRATA_API Lamb : public ConfiguredOptimizer<LambOptions> {
 public:
  explicit Lamb(const LambOptions& options = {});
  Lamb(std::vector<Variable> variables, const LambOptions& options);
  template <VariableVector V>
  explicit Lamb(V variables) : Lamb(std::move(variables), LambOptions()) {}
};

struct AdafactorOptions {
  schedules::Schedule learning_rate = 1e-3;
  double beta_2_decay = -0.8;
  double epsilon_1 = 1e-30;
  double epsilon_2 = 1e-3;
  double clip_threshold = 1;
  bool relative_step = true;  ///< Taken as Keras takes it: it changes nothing.
  double weight_decay = 0;
  double clipnorm = 0;
  double clipvalue = 0;
  double global_clipnorm = 0;
  bool use_ema = false;
  double ema_momentum = 0.99;
  int64_t ema_overwrite_frequency = 0;
  double loss_scale_factor = 0;
  int64_t gradient_accumulation_steps = 0;
};

/// Second moments as means of rows and columns (the last two dimensions). One replica does a whole
/// variable; it must be contiguous.
class STRATA_API Adafactor : public ConfiguredOptimizer<AdafactorOptions> {
 public:
  explicit Adafactor(const AdafactorOptions& options = {});
  Adafactor(std::vector<Variable> variables, const AdafactorOptions& options);
  template <VariableVector V>
  explicit Adafactor(V variables) : Adafactor(std::move(variables), AdafactorOptions()) {}
};

// The names of version 0.1, for one version more.
using SgdOptions [[deprecated("use SGDOptions")]] = SGDOptions;
using Sgd [[deprecated("use SGD")]] = SGD;
using RmspropOptions [[deprecated("use RMSpropOptions")]] = RMSpropOptions;
using Rmsprop [[deprecated("use RMSprop")]] = RMSprop;

}  // namespace strata::optimizers
