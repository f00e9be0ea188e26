#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <tuple>
#include <vector>

#include "core/cpu_isa.h"
#include "kernels/pool_kernels.h"
#include "kernels/replica_like.h"

namespace strata::kernels {
namespace {

/// Normal numbers with ties, infinities, signed zeros and NaNs among them.
at::Tensor awkward(at::IntArrayRef sizes) {
  at::Tensor x = torch::randn(sizes);
  const at::Tensor dice = torch::rand(sizes);
  const float infinity = std::numeric_limits<float>::infinity();
  x = torch::where(dice < 0.4, torch::round(x), x);
  x = torch::where(dice > 0.95, torch::full_like(x, std::numeric_limits<float>::quiet_NaN()), x);
  x = torch::where((dice > 0.85).logical_and(dice < 0.95), torch::full_like(x, -infinity), x);
  return torch::where((dice > 0.8).logical_and(dice < 0.85), torch::full_like(x, infinity), x);
}

TEST(MaxPoolTest, EqualsTheEnginesBitForBit) {
  torch::manual_seed(12);
  const std::vector<std::vector<int64_t>> sizes = {
      {2, 3, 24, 24}, {1, 1, 2, 2},   {3, 2, 5, 7},    {2, 2, 3, 2}, {1, 2, 8, 66},
      {4, 9, 33},     {2, 40, 2, 41}, {5, 3, 64, 128}, {0, 3, 8, 8}, {1, 64, 26, 26}};
  for (const auto& size : sizes) {
    const at::Tensor x = awkward(size);
    for (const int64_t window : {2, 3}) {
      if (x.size(-1) < window || x.size(-2) < window) continue;
      const auto [want, want_indices] = at::max_pool2d_with_indices(x, window, 2);
      const ReplicaLike replica;
      const auto [got, indices] = at::max_pool2d_with_indices(x, window, 2);
      EXPECT_TRUE(same_bits(got, want)) << x.sizes() << window;
      EXPECT_TRUE(same_bits(indices, want_indices)) << x.sizes() << window;
      EXPECT_EQ(got.strides(), want.strides());
    }
  }
}

TEST(MaxPoolTest, OfOtherKindsStaysTheEngines) {
  torch::manual_seed(13);
  const at::Tensor x = awkward({2, 3, 13, 12});
  const auto all = [&] {
    return std::vector<std::tuple<at::Tensor, at::Tensor>>{
        at::max_pool2d_with_indices(x, 3),
        at::max_pool2d_with_indices(x, 2, 1),
        at::max_pool2d_with_indices(x, {2, 2}, {2, 2}, {1, 1}),
        at::max_pool2d_with_indices(x, 2, 2, 0, 2),
        at::max_pool2d_with_indices(x, 2, 2, 0, 1, true),
        at::max_pool2d_with_indices(x.to(at::kDouble), 2),
        at::max_pool2d_with_indices(x.contiguous(at::MemoryFormat::ChannelsLast), 2),
        at::max_pool2d_with_indices(x.transpose(2, 3), 2),
        at::max_pool2d_with_indices(x.slice(1, 0, 3, 2), {2, 2}, {2, 2})};
  };
  const auto want = all();
  const ReplicaLike replica;
  const auto got = all();
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(same_bits(std::get<0>(got[i]), std::get<0>(want[i]))) << i;
    EXPECT_TRUE(same_bits(std::get<1>(got[i]), std::get<1>(want[i]))) << i;
    EXPECT_EQ(std::get<0>(got[i]).strides(), std::get<0>(want[i]).strides()) << i;
  }
}

std::vector<const PoolKernels*> kernels() {
  std::vector<const PoolKernels*> kernels = {&pool_kernels_baseline()};
#if defined(__x86_64__)
  if (cpu_supports(CpuIsa::kAvx2)) kernels.push_back(&pool_kernels_avx2());
  if (cpu_supports(CpuIsa::kAvx512)) kernels.push_back(&pool_kernels_avx512());
#endif
  return kernels;
}

TEST(MaxPoolTest, IsTheSameInEveryInstructionSet) {
  torch::manual_seed(14);
  for (const int64_t width : {2, 9, 24, 31, 63, 130}) {
    const at::Tensor x = awkward({3, 6, width});
    const auto [want, want_indices] = at::max_pool2d_with_indices(x, 2);
    const at::Tensor x3 = awkward({3, 7, width + 1});
    const auto [want3, want_indices3] = at::max_pool2d_with_indices(x3, 3, 2);
    for (const PoolKernels* kernel : kernels()) {
      const at::Tensor got3 = torch::empty_like(want3);
      const at::Tensor indices3 = torch::empty_like(want_indices3);
      kernel->forward3(x3.const_data_ptr<float>(), 3, 7, width + 1, got3.mutable_data_ptr<float>(),
                       indices3.mutable_data_ptr<int64_t>());
      EXPECT_TRUE(same_bits(got3, want3)) << width;
      EXPECT_TRUE(same_bits(indices3, want_indices3)) << width;
      const at::Tensor got = torch::empty_like(want);
      const at::Tensor indices = torch::empty_like(want_indices);
      kernel->forward(x.const_data_ptr<float>(), 3, 6, width, got.mutable_data_ptr<float>(),
                      indices.mutable_data_ptr<int64_t>());
      EXPECT_TRUE(same_bits(got, want)) << width;
      EXPECT_TRUE(same_bits(indices, want_indices)) << width;
    }
  }
}

at::Tensor pool_gradient(const at::Tensor& gradient, const at::Tensor& x,
                         const at::Tensor& indices) {
  return at::max_pool2d_with_indices_backward(gradient, x, 2, 2, 0, 1, false, indices);
}

// libtorch adds into zeros, so a negative zero becomes a positive one.
TEST(MaxPoolTest, GradientEqualsTheEnginesBitForBit) {
  torch::manual_seed(15);
  const std::vector<std::vector<int64_t>> sizes = {{2, 3, 24, 24}, {1, 1, 2, 2},   {3, 2, 5, 7},
                                                   {2, 2, 3, 2},   {1, 2, 8, 66},  {4, 9, 33},
                                                   {2, 40, 2, 41}, {5, 3, 64, 128}};
  for (const auto& size : sizes) {
    const at::Tensor x = awkward(size);
    const at::Tensor indices = std::get<1>(at::max_pool2d_with_indices(x, 2));
    at::Tensor gradient = awkward(indices.sizes());
    gradient = torch::where(gradient.eq(1), torch::full_like(gradient, -0.0), gradient);
    const at::Tensor want = pool_gradient(gradient, x, indices);
    const ReplicaLike replica;
    EXPECT_TRUE(same_bits(pool_gradient(gradient, x, indices), want)) << x.sizes();
    if (x.dim() == 3) continue;
    const at::Tensor last = gradient.contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor got = pool_gradient(last, x, indices);
    EXPECT_TRUE(same_bits(got, want)) << x.sizes();
    EXPECT_TRUE(got.is_contiguous());
  }
}

TEST(MaxPoolTest, GradientIsTheSameInEveryInstructionSet) {
  torch::manual_seed(16);
  for (const int64_t width : {2, 9, 24, 31, 63, 130}) {
    const at::Tensor x = awkward({3, 7, width});
    const at::Tensor indices = std::get<1>(at::max_pool2d_with_indices(x, 2));
    const at::Tensor gradient = awkward(indices.sizes());
    const at::Tensor want = pool_gradient(gradient, x, indices);
    for (const PoolKernels* kernel : kernels()) {
      const at::Tensor got = torch::full_like(want, 7);
      EXPECT_TRUE(kernel->backward(gradient.const_data_ptr<float>(),
                                   indices.const_data_ptr<int64_t>(), 3, 7, width,
                                   got.mutable_data_ptr<float>()));
      EXPECT_TRUE(same_bits(got, want)) << width;
    }
  }
}

TEST(MaxPoolTest, GradientsAtOtherPlacesAndOfOtherKindsStayTheEngines) {
  torch::manual_seed(17);
  const at::Tensor x = torch::randn({2, 3, 8, 10});
  const at::Tensor indices = std::get<1>(at::max_pool2d_with_indices(x, 2));
  const at::Tensor elsewhere = (indices + 3).remainder(80);
  const at::Tensor gradient = torch::randn(indices.sizes());
  const at::Tensor wide = x.to(at::kDouble);
  const auto all = [&] {
    const at::Tensor padded = x.clone().requires_grad_();
    at::max_pool2d(padded, 3, 2, 1).square().sum().backward();
    return std::vector<at::Tensor>{pool_gradient(gradient, x, elsewhere),
                                   pool_gradient(gradient.to(at::kDouble), wide, indices),
                                   padded.grad()};
  };
  const auto want = all();
  const ReplicaLike replica;
  const auto got = all();
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i;
}

TEST(MaxPoolTest, BitsDoNotDependOnIntraOpThreads) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer does not see how OpenMP's threads wait";
#endif
  torch::manual_seed(18);
  const at::Tensor x = torch::randn({8, 16, 24, 24});
  const ReplicaLike replica;
  const auto run = [&](int threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    const at::Tensor input = x.clone().requires_grad_();
    at::max_pool2d(input, 2).square().sum().backward();
    at::set_num_threads(before);
    return input.grad();
  };
  EXPECT_TRUE(same_bits(run(1), run(3)));
}

}  // namespace
}  // namespace strata::kernels
