// The dense layer that replica functions run instead of libtorch's.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/layer_kernels.h"
#include "kernels/replica_like.h"

namespace strata::kernels {
namespace {

at::Tensor leaf(const at::Tensor& value) { return value.detach().clone().set_requires_grad(true); }

at::Tensor exact(const at::Tensor& value) {
  return value.defined() ? leaf(value.to(at::kDouble)) : at::Tensor();
}

struct Layer {
  at::Tensor input, weight, bias;

  at::Tensor output() const { return torch::linear(input, weight, bias); }
  Layer as_double() const { return {exact(input), exact(weight), exact(bias)}; }
};

Layer make_layer(int64_t m, int64_t k, int64_t n, bool has_bias = true) {
  return {leaf(torch::randn({m, k})), leaf(torch::randn({n, k})),
          has_bias ? leaf(torch::randn({n})) : at::Tensor()};
}

void expect_gradients_agree(const Layer& got, const Layer& want) {
  EXPECT_LT(largest_error(got.input.grad(), want.input.grad()), 1e-5);
  EXPECT_LT(largest_error(got.weight.grad(), want.weight.grad()), 1e-5);
  if (!got.bias.defined()) return;
  EXPECT_LT(largest_error(got.bias.grad(), want.bias.grad()), 1e-5);
}

bool is_own(const at::Tensor& output) {
  return output.grad_fn() != nullptr && output.grad_fn()->name() == "DenseLayerBackward";
}

class DenseLayerTest : public testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(3); }
  const ReplicaLike replica_;
};

TEST_F(DenseLayerTest, ValuesAndGradientsAgreeWithDouble) {
  const std::vector<std::vector<int64_t>> sizes = {{64, 784, 256}, {64, 256, 10}, {1, 5, 3},
                                                   {7, 1, 9},      {33, 17, 1},   {5, 300, 70},
                                                   {0, 4, 5},      {5000, 6, 8}};
  for (const auto& s : sizes) {
    for (const bool has_bias : {true, false}) {
      SCOPED_TRACE(testing::Message() << s[0] << " x " << s[1] << " x " << s[2] << " " << has_bias);
      const Layer layer = make_layer(s[0], s[1], s[2], has_bias);
      const Layer reference = layer.as_double();
      const at::Tensor output = layer.output();
      EXPECT_EQ(is_own(output), has_bias);
      const at::Tensor want = reference.output();
      EXPECT_FALSE(is_own(want)) << "double is libtorch's";
      EXPECT_LT(largest_error(output.detach(), want.detach()), 1e-5);
      const at::Tensor gradient = torch::randn(output.sizes());
      output.backward(gradient);
      want.backward(gradient.to(at::kDouble));
      expect_gradients_agree(layer, reference);
    }
  }
}

TEST_F(DenseLayerTest, TakesOperandsAndGradientsOfAnyLayout) {
  const Layer layer = {leaf(torch::randn({40, 12}).t()), leaf(torch::randn({40, 8}).t()),
                       leaf(torch::randn({8}))};
  const Layer strided = {leaf(torch::randn({12, 80})), leaf(torch::randn({16, 40})),
                         leaf(torch::randn({8}))};
  {
    const Layer reference = layer.as_double();
    layer.output().sum().backward();  // an expanded gradient
    reference.output().sum().backward();
    expect_gradients_agree(layer, reference);
  }
  const auto loss = [](const Layer& each) {
    const at::Tensor input = each.input.slice(1, 0, 80, 2);
    const at::Tensor weight = each.weight.slice(0, 0, 16, 2);
    const at::Tensor output = torch::linear(input, weight, each.bias);
    return output.t().pow(2).sum();
  };
  const Layer reference = strided.as_double();
  loss(strided).backward();
  loss(reference).backward();
  expect_gradients_agree(strided, reference);
}

TEST_F(DenseLayerTest, ComputesOnlyTheGradientsThatAreWanted) {
  Layer layer = make_layer(6, 20, 5);
  const at::Tensor output = layer.output();
  const auto found = torch::autograd::grad({output.sum()}, {layer.bias});
  EXPECT_LT(largest_error(found[0], torch::full({5}, 6)), 1e-6);

  layer.weight.set_requires_grad(false);
  layer.output().sum().backward();
  EXPECT_FALSE(layer.weight.grad().defined());
  EXPECT_TRUE(layer.input.grad().defined());

  const at::NoGradGuard no_grad;
  EXPECT_FALSE(layer.output().requires_grad());
}

TEST_F(DenseLayerTest, HasSecondDerivatives) {
  const Layer layer = make_layer(6, 20, 5);
  const Layer reference = layer.as_double();
  const auto penalty = [](const Layer& each) {
    const auto gradients =
        torch::autograd::grad({each.output().pow(3).sum()}, {each.input, each.weight, each.bias},
                              {}, std::nullopt, /*create_graph=*/true);
    return gradients[0].pow(2).sum() + gradients[1].pow(2).sum() + gradients[2].pow(2).sum();
  };
  penalty(layer).backward();
  penalty(reference).backward();
  expect_gradients_agree(layer, reference);
}

TEST_F(DenseLayerTest, ASecondBackwardNeedsTheGraphKept) {
  const Layer layer = make_layer(6, 20, 5);
  const at::Tensor loss = layer.output().sum();
  loss.backward({}, /*retain_graph=*/true);
  const at::Tensor once = layer.weight.grad().clone();
  loss.backward();
  EXPECT_TRUE(same_bits(layer.weight.grad(), once + once));
  EXPECT_THROW(loss.backward(), std::exception);
}

TEST_F(DenseLayerTest, NoticesWhatWasChangedInPlace) {
  const Layer layer = make_layer(6, 20, 5);
  const at::Tensor loss = layer.output().sum();
  {
    const at::NoGradGuard no_grad;
    layer.weight.add_(1);
  }
  EXPECT_THROW(loss.backward(), std::exception);
}

TEST_F(DenseLayerTest, WrongSizesAreReportedByLibtorch) {
  EXPECT_THROW(torch::linear(torch::randn({4, 3}), torch::randn({5, 2})), std::exception);
  EXPECT_THROW(torch::linear(torch::randn({4, 3}), torch::randn({5, 3}), torch::randn({4})),
               std::exception);
}

TEST_F(DenseLayerTest, ModulesUseIt) {
  torch::nn::Linear module(4, 5);
  EXPECT_TRUE(is_own(module->forward(torch::randn({3, 4}))));
  const at::Tensor scaled =
      torch::addmm(torch::randn({5}), torch::randn({3, 4}), leaf(torch::randn({4, 5})), /*beta=*/2);
  EXPECT_FALSE(is_own(scaled));
}

TEST(DenseLayerOutsideReplicas, IsLibtorchs) {
  use_cpu_kernels();
  const at::Tensor output = make_layer(4, 5, 6).output();
  ASSERT_NE(output.grad_fn(), nullptr);
  EXPECT_EQ(output.grad_fn()->name(), "AddmmBackward0");
}

TEST_F(DenseLayerTest, ColumnSumsHaveTheSameBitsOnEveryInstructionSet) {
  for (const int64_t rows : {1, 3, 4, 7, 64, 131}) {
    const int64_t columns = 37, stride = 40;
    const at::Tensor in = torch::randn({rows, stride});
    const auto sums = [&](const LayerKernels& kernels) {
      at::Tensor out = torch::empty({columns});
      kernels.column_sums(in.const_data_ptr<float>(), rows, columns, stride,
                          out.mutable_data_ptr<float>());
      return out;
    };
    const at::Tensor baseline = sums(layer_kernels_baseline());
    EXPECT_LT(largest_error(baseline, in.narrow(1, 0, columns).to(at::kDouble).sum(0)), 1e-6);
    EXPECT_TRUE(same_bits(sums(layer_kernels()), baseline)) << rows;
  }
}

}  // namespace
}  // namespace strata::kernels
