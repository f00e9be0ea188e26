#pragma once

#include <torch/nn/modules/dropout.h>

#include "parity/models.h"

namespace strata::parity {

/// Dropout of both kinds, BatchNormalization of both kinds.
class NoisyNet : public torch::nn::Module {
 public:
  NoisyNet() {
    set_weights(*this, 0.3);
    const at::NoGradGuard no_grad;
    own_norm_->weight.fill_(1);
    shared_norm_->weight.fill_(1);
  }

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor h = channel_dropout_(at::relu(own_norm_(conv_(x))));
    h = dropout_(at::relu(shared_norm_->forward(conv_2_(h)))).flatten(1);
    return out_(torch::dropout(at::tanh(hidden_(h)), 0.4, is_training()));
  }

 private:
  torch::nn::Conv2d conv_ =
      register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 6, 3).padding(1)));
  torch::nn::BatchNorm2d own_norm_ = register_module("own_norm", torch::nn::BatchNorm2d(6));
  torch::nn::Dropout2d channel_dropout_ =
      register_module("channel_dropout", torch::nn::Dropout2d(0.2));
  torch::nn::Conv2d conv_2_ =
      register_module("conv_2", torch::nn::Conv2d(torch::nn::Conv2dOptions(6, 4, 3)));
  SyncBatchNorm shared_norm_ =
      register_module("shared_norm", SyncBatchNorm(SyncBatchNormOptions(4)));
  torch::nn::Dropout dropout_ = register_module("dropout", torch::nn::Dropout(0.3));
  torch::nn::Linear hidden_ = register_module("hidden", torch::nn::Linear(36, 48));
  torch::nn::Linear out_ = register_module("out", torch::nn::Linear(48, 4));
};

}  // namespace strata::parity
