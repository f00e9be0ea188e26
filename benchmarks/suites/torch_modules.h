#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>

/// The networks of suite step as a libtorch user writes them.
namespace strata::bench {

/// Three layers of torch::nn::Linear with relu between them.
struct Mlp : torch::nn::Module {
  Mlp(int64_t in, int64_t hidden, int64_t out);
  torch::Tensor forward(torch::Tensor x);
  torch::nn::Linear fc1, fc2, fc3;
};

struct Cnn : torch::nn::Module {
  Cnn();
  torch::Tensor forward(torch::Tensor x);
  torch::nn::Conv2d conv1, conv2;
  torch::nn::Linear fc1, fc2;
};

/// The transformer of words: linear layers, layer normalization and libtorch's
/// scaled_dot_product_attention, or torch::nn::TransformerEncoderLayer with a mask.
struct WordTransformer : torch::nn::Module {
  WordTransformer(int64_t tokens, bool encoder_layers);
  torch::Tensor forward(const torch::Tensor& words);

  bool encoder_layers;
  torch::nn::Embedding words;
  torch::Tensor positions;
  torch::Tensor hidden;  ///< Added to scores: -inf for later words. Of encoder layers.
  torch::nn::ModuleList blocks;
  torch::nn::Linear head;
};

}  // namespace strata::bench
