// The dense gradient of an embedding in replica functions.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

#include "kernels/kernel_threads.h"
#include "kernels/replica_like.h"

namespace strata::kernels {
namespace {

at::Tensor table_gradient(const at::Tensor& indices, const at::Tensor& gradient, int64_t height,
                          int64_t padding = -1) {
  return at::embedding_dense_backward(gradient, indices, height, padding, false);
}

at::Tensor exact_table_gradient(const at::Tensor& indices, const at::Tensor& gradient,
                                int64_t height, int64_t padding = -1) {
  const int64_t width = gradient.size(-1);
  at::Tensor table = torch::zeros({height, width}, at::kDouble);
  table.index_add_(0, indices.reshape({-1}).to(at::kLong),
                   gradient.reshape({-1, width}).to(at::kDouble));
  if (padding >= 0) table[padding].zero_();
  return table;
}

class EmbeddingGradientTest : public testing::Test {
 protected:
  EmbeddingGradientTest() { torch::manual_seed(9); }
  ReplicaLike replica_;
};

TEST_F(EmbeddingGradientTest, AddsEqualRows) {
  for (const int64_t width : {1, 3, 16, 65}) {
    for (const auto dtype : {at::kLong, at::kInt}) {
      const at::Tensor indices = torch::randint(0, 11, {5, 7}, dtype);
      const at::Tensor gradient = torch::randn({5, 7, width});
      EXPECT_LT(largest_error(table_gradient(indices, gradient, 11),
                              exact_table_gradient(indices, gradient, 11)),
                1e-6);
      EXPECT_LT(largest_error(table_gradient(indices, gradient, 11, 3),
                              exact_table_gradient(indices, gradient, 11, 3)),
                1e-6);
      const at::Tensor strided = gradient.transpose(0, 1).contiguous().transpose(0, 1);
      EXPECT_TRUE(
          same_bits(table_gradient(indices, strided, 11), table_gradient(indices, gradient, 11)));
    }
  }
  EXPECT_EQ(table_gradient(torch::zeros({0}, at::kLong), torch::zeros({0, 4}), 3)
                .abs()
                .sum()
                .item<float>(),
            0);
  const at::Tensor one = torch::tensor(2);
  EXPECT_EQ(table_gradient(one, torch::ones({4}), 3).sum().item<float>(), 4);
}

TEST_F(EmbeddingGradientTest, ModulesUseIt) {
  torch::nn::Embedding layer(torch::nn::EmbeddingOptions(50, 24));
  const at::Tensor tokens = torch::randint(0, 50, {8, 20});
  const at::Tensor gradient = torch::randn({8, 20, 24});
  layer(tokens).backward(gradient);
  EXPECT_TRUE(same_bits(layer->weight.grad(), table_gradient(tokens, gradient, 50)));
}

TEST_F(EmbeddingGradientTest, ThreadsDoNotChangeBits) {
  struct Size {
    int64_t tokens, height, width;
  };
  for (const auto& [tokens, height, width] : {Size{4000, 100, 256}, Size{100000, 5000, 2}}) {
    const at::Tensor indices = torch::randint(0, height, {tokens});
    const at::Tensor gradient = torch::randn({tokens, width});
    at::Tensor one;
    for (int threads = 1; threads <= 7; ++threads) {
      set_kernel_threads(threads);
      const at::Tensor each = table_gradient(indices, gradient, height);
      if (threads == 1) one = each;
      EXPECT_TRUE(same_bits(each, one)) << threads;
    }
    set_kernel_threads(0);
    EXPECT_LT(largest_error(one, exact_table_gradient(indices, gradient, height)), 1e-6);
  }
}

TEST_F(EmbeddingGradientTest, OthersAreLibtorchs) {
  const at::Tensor indices = torch::randint(0, 4, {9});
  const at::Tensor gradient = torch::randn({9, 5}, at::kDouble);
  EXPECT_LT(largest_error(table_gradient(indices, gradient, 4),
                          exact_table_gradient(indices, gradient, 4)),
            1e-12);
  const at::Tensor scaled =
      at::embedding_dense_backward(torch::ones({9, 1}), torch::zeros({9}, at::kLong), 2, -1, true);
  EXPECT_FLOAT_EQ(scaled[0].item<float>(), 1);
}

}  // namespace
}  // namespace strata::kernels
