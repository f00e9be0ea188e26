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
          .global_clipnorm = options.global_clipnorm,
          .use_ema = options.use_ema,
          .ema_momentum = options.ema_momentum,
          .ema_overwrite_frequency = options.ema_overwrite_frequency,
          .loss_scale_factor = options.loss_scale_factor,
          .gradient_accumulation_steps = options.gradient_accumulation_steps};
}

template <typename Options>
std::unique_ptr<tensor::UpdateRule> adam_rule(const Options& options) {
  return tensor::make_adam({.beta_1 = options.beta_1,
                            .beta_2 = options.beta_2,
                            .epsilon = options.epsilon,
                            .amsgrad = options.amsgrad});
}

}  // namespace

SGD::SGD(const SGDOptions& options)
    : ConfiguredOptimizer(
          tensor::make_sgd({.momentum = options.momentum, .nesterov = options.nesterov}),
          common(options), options) {}
SGD::SGD(std::vector<Variable> variables, const SGDOptions& options) : SGD(options) {
  build(std::move(variables));
}

Adam::Adam(const AdamOptions& options)
    : ConfiguredOptimizer(adam_rule(options), common(options), options) {}
Adam::Adam(std::vector<Variable> variables, const AdamOptions& options) : Adam(options) {
  build(std::move(variables));
}

AdamW::AdamW(const AdamWOptions& options)
    : ConfiguredOptimizer(adam_rule(options), common(options), options) {}
AdamW::AdamW(std::vector<Variable> variables, const AdamWOptions& options) : AdamW(options) {
  build(std::move(variables));
}

Adagrad::Adagrad(const AdagradOptions& options)
    : ConfiguredOptimizer(
          tensor::make_adagrad({.initial_accumulator_value = options.initial_accumulator_value,
                                .epsilon = options.epsilon}),
          common(options), options) {}
Adagrad::Adagrad(std::vector<Variable> variables, const AdagradOptions& options)
    : Adagrad(options) {
  build(std::move(variables));
}

RMSprop::RMSprop(const RMSpropOptions& options)
    : ConfiguredOptimizer(tensor::make_rmsprop({.rho = options.rho,
                                                .momentum = options.momentum,
                                                .epsilon = options.epsilon,
                                                .centered = options.centered}),
                          common(options), options) {}
RMSprop::RMSprop(std::vector<Variable> variables, const RMSpropOptions& options)
    : RMSprop(options) {
  build(std::move(variables));
}

Adadelta::Adadelta(const AdadeltaOptions& options)
    : ConfiguredOptimizer(tensor::make_adadelta({.rho = options.rho, .epsilon = options.epsilon}),
                          common(options), options) {}
Adadelta::Adadelta(std::vector<Variable> variables, const AdadeltaOptions& options)
    : Adadelta(options) {
  build(std::move(variables));
}

Ftrl::Ftrl(const FtrlOptions& options)
    : ConfiguredOptimizer(
          tensor::make_ftrl(
              {.learning_rate_power = options.learning_rate_power,
               .initial_accumulator_value = options.initial_accumulator_value,
               .l1_regularization_strength = options.l1_regularization_strength,
               .l2_regularization_strength = options.l2_regularization_strength,
               .l2_shrinkage_regularization_strength = options.l2_shrinkage_regularization_strength,
               .beta = options.beta}),
          common(options), options) {}
Ftrl::Ftrl(std::vector<Variable> variables, const FtrlOptions& options) : Ftrl(options) {
  build(std::move(variables));
}

Adamax::Adamax(const AdamaxOptions& options)
    : ConfiguredOptimizer(
          tensor::make_adamax(
              {.beta_1 = options.beta_1, .beta_2 = options.beta_2, .epsilon = options.epsilon}),
          common(options), options) {}
Adamax::Adamax(std::vector<Variable> variables, const AdamaxOptions& options) : Adamax(options) {
  build(std::move(variables));
}

Nadam::Nadam(const NadamOptions& options)
    : ConfiguredOptimizer(
          tensor::make_nadam(
              {.beta_1 = options.beta_1, .beta_2 = options.beta_2, .epsilon = options.epsilon}),
          common(options), options) {}
Nadam::Nadam(std::vector<Variable> variables, const NadamOptions& options) : Nadam(options) {
  build(std::move(variables));
}

Lion::Lion(const LionOptions& options)
    : ConfiguredOptimizer(tensor::make_lion({.beta_1 = options.beta_1, .beta_2 = options.beta_2}),
                          common(options), options) {}
Lion::Lion(std::vector<Variable> variables, const LionOptions& options) : Lion(options) {
  build(std::move(variables));
}

Lamb::Lamb(const LambOptions& options)
    : ConfiguredOptimizer(
          tensor::make_lamb(
              {.beta_1 = options.beta_1, .beta_2 = options.beta_2, .epsilon = options.epsilon}),
          common(options), options) {}
Lamb::Lamb(std::vector<Variable> variables, const LambOptions& options) : Lamb(options) {
  build(std::move(variables));
}

Adafactor::Adafactor(const AdafactorOptions& options)
    : ConfiguredOptimizer(tensor::make_adafactor({.beta_2_decay = options.beta_2_decay,
                                                  .epsilon_1 = options.epsilon_1,
                                                  .epsilon_2 = options.epsilon_2,
                                                  .clip_threshold = options.clip_threshold}),
                          common(options), options) {}
Adafactor::Adafactor(std::vector<Variable> variables, const AdafactorOptions& options)
    : Adafactor(options) {
  build(std::move(variables));
}

}  // namespace strata::optimizers
