// Rounding errors of products and convolutions against double precision, beside libtorch's.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/replica_like.h"

namespace strata::kernels {
namespace {

/// Root of the mean square.
double error(const at::Tensor& got, const at::Tensor& want) {
  return std::sqrt((got.to(at::kDouble) - want).square().mean().item<double>());
}

/// Where most is rounded alike, chance decides.
constexpr double kChance = 1.02;

TEST(AccuracyTest, ProductsAreNoWorseThanTheEngines) {
  torch::manual_seed(51);
  for (const auto& [m, n, k] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
           {64, 100, 784}, {64, 1024, 1024}, {1024, 784, 64}, {33, 70, 300}, {64, 90, 2500}}) {
    const at::Tensor a = torch::randn({m, k});
    const at::Tensor b = torch::randn({n, k}).t();
    const at::Tensor want = a.to(at::kDouble).mm(b.to(at::kDouble));
    const double engine = error(a.mm(b), want);
    const ReplicaLike replica;
    EXPECT_LE(error(a.mm(b), want), kChance * engine) << m << " x " << k << " x " << n;
  }
}

struct ConvolutionalLayer {
  int64_t images, in, size, out, kernel, padding, stride;
};

TEST(AccuracyTest, ConvolutionsAreNoWorseThanTheEngines) {
  torch::manual_seed(52);
  for (const ConvolutionalLayer& layer : std::vector<ConvolutionalLayer>{{16, 1, 28, 32, 3, 0, 1},
                                                                         {8, 32, 26, 64, 3, 0, 1},
                                                                         {8, 16, 32, 16, 3, 1, 1},
                                                                         {8, 64, 8, 64, 3, 1, 1},
                                                                         {4, 12, 20, 20, 5, 2, 1},
                                                                         {4, 64, 14, 128, 1, 0, 2},
                                                                         {2, 3, 64, 16, 7, 3, 2}}) {
    const at::Tensor x = torch::randn({layer.images, layer.in, layer.size, layer.size});
    const at::Tensor w = torch::randn({layer.out, layer.in, layer.kernel, layer.kernel});
    const at::Tensor bias = torch::randn({layer.out});
    const at::Tensor dy = torch::randn(at::conv2d(x, w, bias, layer.stride, layer.padding).sizes());
    const auto results = [&](at::ScalarType type) {
      const at::Tensor a = x.to(type).clone().requires_grad_();
      const at::Tensor b = w.to(type).clone().requires_grad_();
      const at::Tensor c = bias.to(type).clone().requires_grad_();
      const at::Tensor y = at::conv2d(a, b, c, layer.stride, layer.padding);
      y.backward(dy.to(type));
      return std::vector<at::Tensor>{y.detach(), a.grad(), b.grad(), c.grad()};
    };
    const auto want = results(at::kDouble);
    const auto engine = results(at::kFloat);
    const ReplicaLike replica;
    const auto got = results(at::kFloat);
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_LE(error(got[i], want[i]), kChance * error(engine[i], want[i]))
          << layer.in << " x " << layer.size << " x " << layer.size << " -> " << layer.out
          << ", kernel " << layer.kernel << ", result " << i;
    }
  }
}

}  // namespace
}  // namespace strata::kernels
