// libtorch's modules as training steps on a server without model code: the bits of one process.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/thread.h"
#include "standalone/programs.h"
#include "strategies/standalone/server.h"

namespace strata {
namespace {

namespace nn = torch::nn;
using at::Tensor;
using Tensors = std::vector<Tensor>;

struct ModuleCase {
  std::string name;
  std::function<Tensors(MirroredStrategy& strategy, bool elsewhere)> train;
};

void PrintTo(const ModuleCase& of, std::ostream* out) { *out << of.name; }

template <typename Impl>
using Forward = std::function<Tensor(Impl&, const Tensor&)>;

/// Two steps of SGD: outputs, and weights and buffers in the end.
template <typename Module>
Tensors train(MirroredStrategy& strategy, bool elsewhere, const std::function<Module()>& make,
              const Tensor& x, const Forward<typename Module::ContainedType>& forward) {
  torch::manual_seed(5);
  const auto module = strategy.replicate(make);
  std::optional<optimizers::SGD> optimizer;
  if (!module.variables().empty()) {
    optimizer.emplace(module.variables(), optimizers::SGDOptions{.learning_rate = 0.1});
  }
  const auto step = [&](const Tensor& one) {
    Tensor given = (x * one.to(x.scalar_type())).detach();
    if (x.is_floating_point()) given.requires_grad_();
    const Tensor y = forward(*module.operator->(), given);
    const Tensor loss = y.square().mean();
    Tensors results = {y.detach().contiguous()};
    if (optimizer) {
      optimizer->minimize(loss);
    } else {
      results.push_back(torch::autograd::grad({loss}, {given})[0].contiguous());
    }
    return results;
  };
  const auto function = strata::function(step, {.name = "module"});
  Tensors all;
  for (int i = 0; i < 2; ++i) {
    const Tensor one = torch::ones({1});
    const auto results = elsewhere ? strategy.run(function, one) : strategy.run(step, one);
    for (const Tensor& each : results.get(0)) all.push_back(each);
  }
  strategy.fetch();
  for (const Variable& variable : module.variables()) all.push_back(variable.on_replica(0));
  for (const Tensor& buffer : module->buffers()) all.push_back(buffer);
  return all;
}

template <typename Module>
ModuleCase of(
    std::string name, std::function<Module()> make, Tensor x,
    Forward<typename Module::ContainedType> forward =
        [](typename Module::ContainedType& module, const Tensor& x) { return module.forward(x); }) {
  return {std::move(name), [=](MirroredStrategy& strategy, bool elsewhere) {
            return train<Module>(strategy, elsewhere, make, x, forward);
          }};
}

/// A function of libtorch's, behind a layer with weights.
ModuleCase after_linear(std::string name, std::function<Tensor(const Tensor&)> function) {
  return of<nn::Linear>(
      std::move(name), [] { return nn::Linear(6, 8); }, torch::randn({4, 6}),
      [function](nn::LinearImpl& linear, const Tensor& x) { return function(linear.forward(x)); });
}

std::vector<ModuleCase> module_cases() {
  torch::manual_seed(11);
  const Tensor row = torch::randn({4, 6, 9}), image = torch::randn({2, 6, 9, 8}),
               volume = torch::randn({2, 4, 5, 6, 7}), words = torch::randint(0, 10, {4, 5});
  const auto first = [](auto& module, const Tensor& x) { return std::get<0>(module.forward(x)); };
  return {
      of<nn::Conv1d>(
          "conv1d", [] { return nn::Conv1d(nn::Conv1dOptions(6, 4, 3).stride(2)); }, row),
      of<nn::Conv2d>(
          "conv2d_grouped",
          [] { return nn::Conv2d(nn::Conv2dOptions(6, 4, 3).groups(2).bias(false)); }, image),
      of<nn::Conv3d>(
          "conv3d", [] { return nn::Conv3d(nn::Conv3dOptions(4, 3, 2).dilation(2)); }, volume),
      of<nn::ConvTranspose1d>(
          "conv_transpose1d",
          [] { return nn::ConvTranspose1d(nn::ConvTranspose1dOptions(6, 4, 3).stride(2)); }, row),
      of<nn::ConvTranspose2d>(
          "conv_transpose2d",
          [] {
            return nn::ConvTranspose2d(
                nn::ConvTranspose2dOptions(6, 4, 3).stride(2).output_padding(1));
          },
          image),
      of<nn::BatchNorm1d>(
          "batch_norm1d", [] { return nn::BatchNorm1d(6); }, row),
      of<nn::BatchNorm3d>(
          "batch_norm3d", [] { return nn::BatchNorm3d(4); }, volume),
      of<nn::InstanceNorm2d>(
          "instance_norm",
          [] { return nn::InstanceNorm2d(nn::InstanceNorm2dOptions(6).affine(true)); }, image),
      of<nn::GroupNorm>(
          "group_norm", [] { return nn::GroupNorm(nn::GroupNormOptions(3, 6)); }, image),
      of<nn::LayerNorm>(
          "layer_norm", [] { return nn::LayerNorm(nn::LayerNormOptions({9})); }, row),
      of<nn::Embedding>(
          "embedding", [] { return nn::Embedding(10, 4); }, words),
      of<nn::LSTM>(
          "lstm", [] { return nn::LSTM(nn::LSTMOptions(9, 5).num_layers(2).bidirectional(true)); },
          row, first),
      of<nn::GRU>(
          "gru", [] { return nn::GRU(nn::GRUOptions(9, 5).batch_first(true)); }, row, first),
      of<nn::RNN>(
          "rnn", [] { return nn::RNN(nn::RNNOptions(9, 5)); }, row, first),
      of<nn::LSTMCell>(
          "lstm_cell", [] { return nn::LSTMCell(9, 5); }, torch::randn({6, 9}),
          [first](nn::LSTMCellImpl& cell, const Tensor& x) { return first(cell, x); }),
      of<nn::GRUCell>(
          "gru_cell", [] { return nn::GRUCell(9, 5); }, torch::randn({6, 9}),
          [](nn::GRUCellImpl& cell, const Tensor& x) { return cell.forward(x); }),
      of<nn::MultiheadAttention>(
          "multihead_attention",
          [] { return nn::MultiheadAttention(nn::MultiheadAttentionOptions(8, 2)); },
          torch::randn({5, 3, 8}),
          [](nn::MultiheadAttentionImpl& layer, const Tensor& x) {
            return std::get<0>(layer.forward(x, x, x));
          }),
      of<nn::TransformerEncoderLayer>(
          "transformer_encoder",
          [] {
            return nn::TransformerEncoderLayer(
                nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(0.1));
          },
          torch::randn({5, 3, 8}),
          [](nn::TransformerEncoderLayerImpl& layer, const Tensor& x) { return layer.forward(x); }),
      of<nn::PReLU>(
          "prelu", [] { return nn::PReLU(); }, image),
      of<nn::MaxPool1d>(
          "max_pool1d", [] { return nn::MaxPool1d(2); }, row),
      of<nn::MaxPool3d>(
          "max_pool3d", [] { return nn::MaxPool3d(2); }, volume),
      of<nn::AvgPool1d>(
          "avg_pool1d", [] { return nn::AvgPool1d(2); }, row),
      of<nn::AvgPool3d>(
          "avg_pool3d", [] { return nn::AvgPool3d(2); }, volume),
      of<nn::AdaptiveAvgPool1d>(
          "adaptive_avg_pool1d", [] { return nn::AdaptiveAvgPool1d(4); }, row),
      of<nn::AdaptiveMaxPool2d>(
          "adaptive_max_pool2d",
          [] {
            return nn::AdaptiveMaxPool2d(nn::AdaptiveMaxPool2dOptions({3, 2}));
          },
          image),
      of<nn::ReflectionPad2d>(
          "reflection_pad", [] { return nn::ReflectionPad2d(2); }, image),
      of<nn::ReplicationPad1d>(
          "replication_pad", [] { return nn::ReplicationPad1d(2); }, row),
      of<nn::Upsample>(
          "upsample_bilinear",
          [] {
            return nn::Upsample(nn::UpsampleOptions()
                                    .scale_factor(std::vector<double>{2, 2})
                                    .mode(torch::kBilinear)
                                    .align_corners(false));
          },
          image),
      of<nn::Upsample>(
          "upsample_nearest",
          [] {
            return nn::Upsample(nn::UpsampleOptions()
                                    .scale_factor(std::vector<double>{2, 2})
                                    .mode(torch::kNearest));
          },
          image),
      of<nn::PixelShuffle>(
          "pixel_shuffle", [] { return nn::PixelShuffle(2); }, torch::randn({2, 8, 3, 3})),
      of<nn::LocalResponseNorm>(
          "local_response_norm",
          [] { return nn::LocalResponseNorm(nn::LocalResponseNormOptions(2)); }, image),
      after_linear("glu", [](auto x) { return torch::glu(x); }),
      after_linear("celu", [](auto x) { return torch::celu(x); }),
      after_linear("selu", [](auto x) { return torch::selu(x); }),
      after_linear("hardshrink", [](auto x) { return torch::hardshrink(x); }),
      after_linear("softshrink", [](auto x) { return torch::softshrink(x); }),
      after_linear("log_sigmoid", [](auto x) { return torch::log_sigmoid(x); }),
      after_linear("mse_loss", [](auto x) { return torch::mse_loss(x, torch::ones_like(x)); }),
      after_linear("smooth_l1_loss",
                   [](auto x) { return torch::smooth_l1_loss(x, torch::ones_like(x)); }),
      after_linear("huber_loss", [](auto x) { return torch::huber_loss(x, torch::ones_like(x)); }),
      after_linear("binary_cross_entropy",
                   [](auto x) {
                     return torch::binary_cross_entropy(x.sigmoid(), torch::ones_like(x) * 0.3);
                   }),
      after_linear("binary_cross_entropy_with_logits",
                   [](auto x) {
                     return torch::binary_cross_entropy_with_logits(x, torch::ones_like(x) * 0.3);
                   }),
      after_linear(
          "kl_div",
          [](auto x) { return torch::kl_div(x.log_softmax(1), torch::full_like(x, 0.125)); }),
      after_linear("cosine_similarity",
                   [](auto x) { return torch::cosine_similarity(x, torch::ones_like(x)); }),
      after_linear("norm", [](auto x) { return x / x.norm(2, 1, true); }),
      after_linear("sort", [](auto x) { return std::get<0>(x.sort(1)); }),
      after_linear("topk", [](auto x) { return std::get<0>(x.topk(3)); }),
      after_linear("index",
                   [](auto x) {
                     return x.index({torch::tensor({2, 0}), torch::indexing::Slice()});
                   }),
      after_linear("cumsum", [](auto x) { return x.cumsum(1); }),
      after_linear("max", [](auto x) { return std::get<0>(x.max(1)) + std::get<0>(x.min(1)); }),
      after_linear("std", [](auto x) { return x.std(1) + x.var(0).sum(); }),
      after_linear("clamp", [](auto x) { return x.clamp(-0.3, 0.4); }),
      after_linear("einsum",
                   [](auto x) {
                     return torch::einsum("bi,bj->bij", {x, x});
                   }),
      after_linear("trigonometry", [](auto x) { return x.sin() * x.cos() + x.atan() + x.sinh(); }),
  };
}

class StandaloneModulesTest : public testing::TestWithParam<ModuleCase> {};

TEST_P(StandaloneModulesTest, HaveTheBitsOfOneProcess) {
  MirroredStrategy here({.devices = {"cpu:0"}, .seed = test::kSeed});
  const Tensors expected = GetParam().train(here, false);
  standalone::StandaloneServer server({.keep = std::chrono::milliseconds(100)});
  const Thread serving("server", [&](const std::stop_token& stop) { server.serve(stop); });
  MirroredStrategy there(test::client_of({server.address()}));
  EXPECT_EQ(tensor::fingerprint(GetParam().train(there, true)), tensor::fingerprint(expected));
  there.close();
}

INSTANTIATE_TEST_SUITE_P(Modules, StandaloneModulesTest, testing::ValuesIn(module_cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace strata
