#include "kernels/half_dense_layer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

#include "kernels/bf16_products.h"
#include "kernels/half_cast.h"
#include "kernels/replica_like.h"

namespace strata::kernels {
namespace {

using torch::autograd::grad;

/// A layer's weights, and their copies in bfloat16.
struct Weights {
  explicit Weights(bool by_columns) {
    torch::manual_seed(3);
    x = torch::randn({9, 33}).to(at::kBFloat16).requires_grad_();
    kernel = (by_columns ? torch::randn({21, 33}).t() : torch::randn({33, 21})).requires_grad_();
    bias = torch::randn({21}).requires_grad_();
    half_kernel = kernel.detach().to(at::kBFloat16);
    half_bias = bias.detach().to(at::kBFloat16);
    gradient = torch::randn({9, 21}).to(at::kBFloat16);
  }
  at::Tensor output() const {
    return at::addmm(as_cast_of(half_bias, bias), x, as_cast_of(half_kernel, kernel));
  }
  std::vector<at::Tensor> inputs() const { return {bias, x, kernel}; }

  at::Tensor x, kernel, bias, half_kernel, half_bias, gradient;
};

TEST(HalfDenseLayerTest, GradientsOfWeightsAreFloatSums) {
  for (const bool by_columns : {false, true}) {
    const Weights weights(by_columns);
    const at::Tensor g = weights.gradient.to(at::kDouble);
    const ReplicaLike replica;
    const auto got = grad({weights.output()}, weights.inputs(), {weights.gradient});
    const bool exact = bf16_products() != Bf16Products::kEngine;
    EXPECT_EQ(got[0].scalar_type(), at::kFloat);
    EXPECT_EQ(got[1].scalar_type(), at::kBFloat16);
    EXPECT_EQ(got[2].scalar_type(), at::kFloat);
    EXPECT_LT(largest_error(got[0], g.sum(0)), 1e-6);
    EXPECT_LT(largest_error(got[1], g.mm(weights.half_kernel.to(at::kDouble).t())), 4e-3);
    EXPECT_LT(largest_error(got[2], weights.x.detach().to(at::kDouble).t().mm(g)),
              exact ? 1e-6 : 4e-3);
    EXPECT_EQ(got[2].strides(), weights.kernel.strides());
  }
}

TEST(HalfDenseLayerTest, IsLibtorchsOutsideReplicasAndWithinRoundingTheSame) {
  const Weights weights(true);
  const at::Tensor want = weights.output();
  const auto want_gradients = grad({want}, weights.inputs(), {weights.gradient});
  const ReplicaLike replica;
  const at::Tensor got = weights.output();
  EXPECT_LT(largest_error(got, want), 8e-3);
  const auto gradients = grad({got}, weights.inputs(), {weights.gradient});
  for (size_t i = 0; i < gradients.size(); ++i) {
    EXPECT_EQ(gradients[i].scalar_type(), want_gradients[i].scalar_type());
    EXPECT_LT(largest_error(gradients[i], want_gradients[i]), 8e-3) << i;
  }
}

TEST(HalfDenseLayerTest, TakesExpandedGradientsOnesOfWeightsAloneAndGraphs) {
  const Weights weights(true);
  const ReplicaLike replica;
  const auto sums = grad({weights.output().sum()}, weights.inputs());
  EXPECT_LT(largest_error(sums[0], torch::full({21}, 9.0)), 1e-6);
  const auto kernel = grad({weights.output()}, {weights.kernel}, {weights.gradient});
  EXPECT_EQ(kernel[0].scalar_type(), at::kFloat);
  const auto graph = grad({weights.output().square().sum()}, {weights.kernel}, {},
                          /*retain_graph=*/true, /*create_graph=*/true);
  EXPECT_TRUE(grad({graph[0].sum()}, {weights.x})[0].isfinite().all().item<bool>());
  // Weights that are no casts keep their type.
  const at::Tensor half = weights.half_kernel.clone().requires_grad_();
  const at::Tensor y = at::addmm(weights.half_bias, weights.x.detach(), half);
  EXPECT_EQ(grad({y}, {half}, {weights.gradient})[0].scalar_type(), at::kBFloat16);
}

TEST(HalfDenseLayerTest, AStaleCopyIsAnErrorInBackward) {
  Weights weights(false);
  const ReplicaLike replica;
  const at::Tensor y = weights.output();
  weights.half_kernel.add_(1);
  EXPECT_THROW(grad({y}, {weights.x}, {weights.gradient}), c10::Error);
}

TEST(HalfCastTest, SharesMemoryAndHandsGradientsOn) {
  const at::Tensor weight = torch::randn({5, 4}).requires_grad_();
  const at::Tensor half = weight.detach().to(at::kBFloat16);
  const at::Tensor cast = as_cast_of(half, weight);
  EXPECT_EQ(cast.const_data_ptr(), half.const_data_ptr());
  EXPECT_NE(cast_node_of(cast), nullptr);
  EXPECT_EQ(cast_node_of(cast.flatten()), nullptr);
  EXPECT_EQ(cast_node_of(weight), nullptr);
  EXPECT_EQ(cast_node_of(half), nullptr);
  const auto gradient = grad({cast.sum()}, {weight})[0];
  EXPECT_TRUE(gradient.equal(torch::ones({5, 4})));
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(as_cast_of(half, weight).requires_grad());
}

}  // namespace
}  // namespace strata::kernels
