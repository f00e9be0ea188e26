#include "suites/torch_modules.h"

#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/transformer.h>
#include <torch/nn/modules/transformerlayer.h>

#include "suites/model_sizes.h"
#include "suites/step_data.h"

namespace strata::bench {
namespace {

using torch::nn::LayerNorm;
using torch::nn::LayerNormOptions;
using torch::nn::Linear;

struct AttentionBlock : torch::nn::Module {
  AttentionBlock()
      : qkv(register_module("qkv", Linear(kTransformerWidth, 3 * kTransformerWidth))),
        out(register_module("out", Linear(kTransformerWidth, kTransformerWidth))),
        wide(register_module("wide", Linear(kTransformerWidth, 4 * kTransformerWidth))),
        narrow(register_module("narrow", Linear(4 * kTransformerWidth, kTransformerWidth))),
        norm1(register_module("norm1", LayerNorm(norm_options()))),
        norm2(register_module("norm2", LayerNorm(norm_options()))) {}

  static LayerNormOptions norm_options() {
    return LayerNormOptions({kTransformerWidth}).eps(kNormEpsilon);
  }

  torch::Tensor forward(torch::Tensor x) {
    const int64_t batch = x.size(0), tokens = x.size(1);
    const auto parts =
        qkv(x).view({batch, tokens, 3, kHeads, -1}).permute({2, 0, 3, 1, 4}).unbind(0);
    const torch::Tensor attended =
        at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true);
    x = norm1(x + out(attended.transpose(1, 2).reshape({batch, tokens, kTransformerWidth})));
    return norm2(x + narrow(torch::gelu(wide(x))));
  }

  Linear qkv, out, wide, narrow;
  LayerNorm norm1, norm2;
};

}  // namespace

Mlp::Mlp(int64_t in, int64_t hidden, int64_t out)
    : fc1(register_module("fc1", Linear(in, hidden))),
      fc2(register_module("fc2", Linear(hidden, hidden))),
      fc3(register_module("fc3", Linear(hidden, out))) {}

torch::Tensor Mlp::forward(torch::Tensor x) {
  x = torch::relu(fc1(x));
  x = torch::relu(fc2(x));
  return fc3(x);
}

Cnn::Cnn()
    : conv1(register_module("conv1", torch::nn::Conv2d(1, 32, 3))),
      conv2(register_module("conv2", torch::nn::Conv2d(32, 64, 3))),
      fc1(register_module("fc1", Linear(64 * 12 * 12, 128))),
      fc2(register_module("fc2", Linear(128, 10))) {}

torch::Tensor Cnn::forward(torch::Tensor x) {
  x = torch::relu(conv1(x));
  x = torch::relu(conv2(x));
  x = torch::max_pool2d(x, 2).flatten(1);
  return fc2(torch::relu(fc1(x)));
}

WordTransformer::WordTransformer(int64_t tokens, bool encoder_layers)
    : encoder_layers(encoder_layers),
      words(register_module("words", torch::nn::Embedding(kStepWords, kTransformerWidth))),
      positions(register_parameter("positions", 0.02 * torch::randn({tokens, kTransformerWidth}))),
      blocks(register_module("blocks", torch::nn::ModuleList())),
      head(register_module("head", Linear(kTransformerWidth, kStepWords))) {
  for (int i = 0; i < kTransformerDepth; ++i) {
    if (encoder_layers) {
      blocks->push_back(torch::nn::TransformerEncoderLayer(
          torch::nn::TransformerEncoderLayerOptions(kTransformerWidth, kHeads)
              .dim_feedforward(4 * kTransformerWidth)
              .dropout(0)
              .activation(torch::kGELU)));
    } else {
      blocks->push_back(std::make_shared<AttentionBlock>());
    }
  }
  if (encoder_layers) {
    hidden = register_buffer("hidden",
                             torch::nn::TransformerImpl::generate_square_subsequent_mask(tokens));
  }
}

torch::Tensor WordTransformer::forward(const torch::Tensor& word_numbers) {
  torch::Tensor x = words(word_numbers) + positions;
  if (encoder_layers) x = x.transpose(0, 1);  // the layers' batch is the second dimension
  for (const auto& block : *blocks) {
    if (encoder_layers) {
      x = block->as<torch::nn::TransformerEncoderLayerImpl>()->forward(x, hidden);
    } else {
      x = block->as<AttentionBlock>()->forward(x);
    }
  }
  if (encoder_layers) x = x.transpose(0, 1);
  return head(x);
}

}  // namespace strata::bench
