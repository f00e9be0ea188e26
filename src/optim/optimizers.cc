#include "strata/optim/optimizers.h"

#include <utility>

namespace strata::optimizers {
namespace {

template <typename Options>
OptimizerOptions common(const Options& options) {
  return {.learning_rate = options.learning_rate,
          .weight_decay = options.weight_decay,
          .clipnorm = options.clipnorm,
          .clipvalue = options.clipvalue,
          .global_clipnorm = options.global_clipnorm};
}

template <typename Options>
std::unique_ptr<tensor::UpdateRule> adam_rule(const Options& options) {
  return tensor::make_adam({.beta_1 = options.beta_1,
                            .beta_2 = options.beta_2,
                            .epsilon = options.epsilon,
                            .amsgrad = options.amsgrad});
}

}  // namespace

Sgd::Sgd(const SgdOptions& options)
    : Optimizer(tensor::make_sgd({.momentum = options.momentum, .nesterov = options.nesterov}),
                common(options)) {}
Sgd::Sgd(std::vector<Variable> variables, const SgdOptions& options) : Sgd(options) {
  build(std::move(variables));
}

Adam::Adam(const AdamOptions& options) : Optimizer(adam_rule(options), common(options)) {}
Adam::Adam(std::vector<Variable> variables, const AdamOptions& options) : Adam(options) {
  build(std::move(variables));
}

AdamW::AdamW(const AdamWOptions& options) : Optimizer(adam_rule(options), common(options)) {}
AdamW::AdamW(std::vector<Variable> variables, const AdamWOptions& options) : AdamW(options) {
  build(std::move(variables));
}

Adagrad::Adagrad(const AdagradOptions& options)
    : Optimizer(
          tensor::make_adagrad({.initial_accumulator_value = options.initial_accumulator_value,
                                .epsilon = options.epsilon}),
          common(options)) {}
Adagrad::Adagrad(std::vector<Variable> variables, const AdagradOptions& options)
    : Adagrad(options) {
  build(std::move(variables));
}

Rmsprop::Rmsprop(const RmspropOptions& options)
    : Optimizer(tensor::make_rmsprop({.rho = options.rho,
                                      .momentum = options.momentum,
                                      .epsilon = options.epsilon,
                                      .centered = options.centered}),
                common(options)) {}
Rmsprop::Rmsprop(std::vector<Variable> variables, const RmspropOptions& options)
    : Rmsprop(options) {
  build(std::move(variables));
}

Adadelta::Adadelta(const AdadeltaOptions& options)
    : Optimizer(tensor::make_adadelta({.rho = options.rho, .epsilon = options.epsilon}),
                common(options)) {}
Adadelta::Adadelta(std::vector<Variable> variables, const AdadeltaOptions& options)
    : Adadelta(options) {
  build(std::move(variables));
}

Ftrl::Ftrl(const FtrlOptions& options)
    : Optimizer(tensor::make_ftrl({.learning_rate_power = options.learning_rate_power,
                                   .initial_accumulator_value = options.initial_accumulator_value,
                                   .l1_regularization_strength = options.l1_regularization_strength,
                                   .l2_regularization_strength = options.l2_regularization_strength,
                                   .l2_shrinkage_regularization_strength =
                                       options.l2_shrinkage_regularization_strength,
                                   .beta = options.beta}),
                common(options)) {}
Ftrl::Ftrl(std::vector<Variable> variables, const FtrlOptions& options) : Ftrl(options) {
  build(std::move(variables));
}

}  // namespace strata::optimizers
