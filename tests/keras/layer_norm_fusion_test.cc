// Sums and the layer normalization behind them in one pass.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <string>

#include "strata/keras/layers.h"
#include "strata/keras/model.h"
#include "strata/keras/ops.h"

namespace strata::keras {
namespace {

/// A block as transformers have it: the first sum goes on beside its normalization.
struct RowBlock {
  SymbolicTensor input, first, output;
};

RowBlock make_row_block() {
  const SymbolicTensor input = Input({6, 16});
  SymbolicTensor x = layers::Dense(16, {.activation = "gelu", .name = "dense1"})(input);
  const SymbolicTensor first = layers::Add({.name = "add1"})({input, x});
  x = layers::LayerNormalization({.name = "norm1"})(first);
  x = layers::Dense(16, {.name = "dense2"})(x);
  const SymbolicTensor second = first + x;
  return {input, first, layers::LayerNormalization({.name = "norm2"})(second)};
}

/// The same, layer by layer.
at::Tensor by_layers(const Model& model, const at::Tensor& x) {
  const auto call = [&](const char* name, const at::Tensor& value) {
    return model.get_layer(name)(value);
  };
  const at::Tensor first = x + call("dense1", x);
  return call("norm2", first + call("dense2", call("norm1", first)));
}

double row_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>() / std::max(1.0, b.abs().max().item<double>());
}

std::string node_of(const at::Tensor& value) {
  return value.grad_fn() == nullptr ? "" : value.grad_fn()->name();
}

TEST(LayerNormFusionTest, OnePassGivesWhatTheLayersGive) {
  const RowBlock block = make_row_block();
  const Model model(block.input, block.output);
  at::manual_seed(4);
  const at::Tensor x = at::randn({5, 6, 16});
  const auto gradients = [&](const at::Tensor& y) {
    Tensors weights;
    for (const Variable& variable : model->trainable_variables()) {
      weights.push_back(variable.value());
    }
    Tensors all = torch::autograd::grad({y.pow(3).sum()}, weights);
    all.push_back(y.detach());
    return all;
  };
  const at::Tensor y = model->operator()({x}, {.training = true}).values.at(0);
  EXPECT_EQ(node_of(y), "LayerNormOfSumBackward");
  const Tensors got = gradients(y);
  const Tensors want = gradients(by_layers(model, x));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(row_difference(got[i], want[i]), 2e-5) << i;
}

TEST(LayerNormFusionTest, TheSumIsAnOutputToo) {
  const RowBlock block = make_row_block();
  const Model model({block.input}, {block.output, block.first});
  at::manual_seed(4);
  const at::Tensor x = at::randn({5, 6, 16});
  const Tensors values = model->operator()({x}, {}).values;
  EXPECT_LT(row_difference(values.at(0), by_layers(model, x)), 1e-6);
  EXPECT_LT(row_difference(values.at(1), x + model.get_layer("dense1")(x)), 1e-6);
}

TEST(LayerNormFusionTest, OtherSumsAreLeftAlone) {
  const SymbolicTensor input = Input({6, 16});
  const SymbolicTensor row = Input({1, 16});
  const SymbolicTensor sum = layers::Add({.name = "add"})({input, row});
  const Model wide({input, row}, {layers::LayerNormalization({.axis = -1, .name = "norm"})(sum)});
  const at::Tensor x = at::randn({5, 6, 16}), y = at::randn({5, 1, 16});
  EXPECT_LT(row_difference(wide->operator()({x, y}, {}).values.at(0),
                           at::layer_norm(x + y, {16}, {}, {}, 1e-3)),
            1e-5);
  // Over other axes than the last, a fused call adds first and then does as ever.
  const SymbolicTensor doubled = layers::Add({.name = "doubled"})({input, input});
  const Model across(input, layers::LayerNormalization({.axis = 1, .name = "across"})(doubled));
  EXPECT_LT(
      row_difference(across->operator()({x}, {}).values.at(0),
                     at::layer_norm(2 * x.transpose(1, 2), {6}, {}, {}, 1e-3).transpose(1, 2)),
      1e-5);
}

}  // namespace
}  // namespace strata::keras
