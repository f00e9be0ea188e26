#include "tools/study/study_optimizer.h"

#include "strata/optim/loss_scale_optimizer.h"
#include "strata/optim/optimizers.h"

namespace strata::tools {

std::shared_ptr<optimizers::Optimizer> make_study_optimizer(const Configuration& configuration,
                                                            const schedules::Schedule& rate,
                                                            double momentum) {
  std::shared_ptr<optimizers::Optimizer> optimizer;
  if (configuration.optimizer == "lamb") {
    optimizer = std::make_shared<optimizers::Lamb>(optimizers::LambOptions{.learning_rate = rate});
  } else if (configuration.optimizer == "lars") {
    optimizer = std::make_shared<optimizers::LARS>(
        optimizers::LARSOptions{.learning_rate = rate,
                                .momentum = momentum,
                                .nesterov = momentum > 0,
                                .skip_list = {"bias", "gamma", "beta"}});
  } else {
    optimizer = std::make_shared<optimizers::SGD>(optimizers::SGDOptions{
        .learning_rate = rate, .momentum = momentum, .nesterov = momentum > 0});
  }
  if (configuration.dtype != "float16") return optimizer;
  return std::make_shared<optimizers::LossScaleOptimizer>(std::move(optimizer));
}

std::shared_ptr<optimizers::Optimizer> make_study_optimizer(const Configuration& configuration,
                                                            const keras::Model& model) {
  auto optimizer = make_study_optimizer(configuration, configuration.learning_rate, 0);
  optimizer->build(model->trainable_variables());
  return optimizer;
}

}  // namespace strata::tools
