#pragma once

#include <memory>

#include "strata/keras/model.h"
#include "strata/optim/optimizer.h"
#include "strata/optim/schedule.h"
#include "tools/study/configuration.h"

namespace strata::tools {

/// sgd or lars (with Nesterov's momentum where `momentum` is above 0) or lamb, without a model. lars
/// leaves out biases and BatchNormalization. In float16 with a dynamic loss scale.
std::shared_ptr<optimizers::Optimizer> make_study_optimizer(const Configuration& configuration,
                                                            const schedules::Schedule& rate,
                                                            double momentum);

/// For the model's variables, at the configuration's learning rate, as tf_cnn_benchmarks trains:
/// sgd has no momentum, nor has lars.
std::shared_ptr<optimizers::Optimizer> make_study_optimizer(const Configuration& configuration,
                                                            const keras::Model& model);

}  // namespace strata::tools
