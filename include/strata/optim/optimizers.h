#pragma once

#include <vector>

#include "strata/core/export.h"
#include "strata/optim/optimizer.h"

/// Keras's optimizers with Keras's formulas and defaults (reference values in tests/golden).
/// Options that all of them have are explained at OptimizerOptions.
namespace strata::optimizers {

struct SgdOptions {
  schedules::Schedule learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double clipnorm = 0;
  double clipvalue = 0;
  double global_clipnorm = 0;
};

class STRATA_API Sgd : public Optimizer {
 public:
  explicit Sgd(const SgdOptions& options = {});
  explicit Sgd(std::vector<Variable> variables, const SgdOptions& options = {});
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
};

class STRATA_API Adam : public Optimizer {
 public:
  explicit Adam(const AdamOptions& options = {});
  explicit Adam(std::vector<Variable> variables, const AdamOptions& options = {});
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
};

class STRATA_API AdamW : public Optimizer {
 public:
  explicit AdamW(const AdamWOptions& options = {});
  explicit AdamW(std::vector<Variable> variables, const AdamWOptions& options = {});
};

struct AdagradOptions {
  schedules::Schedule learning_rate = 1e-3;
  double initial_accumulator_value = 0.1;
  double epsilon = 1e-7;
  double weight_decay = 0;
  double clipnorm = 0;
  double clipvalue = 0;
  double global_clipnorm = 0;
};

class STRATA_API Adagrad : public Optimizer {
 public:
  explicit Adagrad(const AdagradOptions& options = {});
  explicit Adagrad(std::vector<Variable> variables, const AdagradOptions& options = {});
};

struct RmspropOptions {
  schedules::Schedule learning_rate = 1e-3;
  double rho = 0.9;
  double momentum = 0;
  double epsilon = 1e-7;
  bool centered = false;
  double weight_decay = 0;
  double clipnorm = 0;
  double clipvalue = 0;
  double global_clipnorm = 0;
};

class STRATA_API Rmsprop : public Optimizer {
 public:
  explicit Rmsprop(const RmspropOptions& options = {});
  explicit Rmsprop(std::vector<Variable> variables, const RmspropOptions& options = {});
};

struct AdadeltaOptions {
  schedules::Schedule learning_rate = 1e-3;
  double rho = 0.95;
  double epsilon = 1e-7;
  double weight_decay = 0;
  double clipnorm = 0;
  double clipvalue = 0;
  double global_clipnorm = 0;
};

class STRATA_API Adadelta : public Optimizer {
 public:
  explicit Adadelta(const AdadeltaOptions& options = {});
  explicit Adadelta(std::vector<Variable> variables, const AdadeltaOptions& options = {});
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
};

class STRATA_API Ftrl : public Optimizer {
 public:
  explicit Ftrl(const FtrlOptions& options = {});
  explicit Ftrl(std::vector<Variable> variables, const FtrlOptions& options = {});
};

}  // namespace strata::optimizers
