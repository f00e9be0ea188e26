#include "tensor/tree_sum.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "tensor/tree_kernels.h"

namespace strata::tensor {
namespace {

// The definition, element by element.
template <typename T>
std::optional<T> naive(TreeOp op, const T* const* sources, int n, int64_t i) {
  if (n == 0) return std::nullopt;
  if (n == 1) return sources[0] == nullptr ? std::nullopt : std::optional<T>(sources[0][i]);
  const int left = static_cast<int>(tree_left_count(n));
  const auto a = naive(op, sources, left, i), b = naive(op, sources + left, n - left, i);
  if (!a) return b;
  if (!b) return a;
  switch (op) {
    case TreeOp::kSum:
      return static_cast<T>(*a + *b);
    case TreeOp::kMin:
      return std::min(*a, *b);
    default:
      return std::max(*a, *b);
  }
}

template <typename T>
std::vector<std::vector<T>> arrays(int n, int64_t size, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal(0, 1000);
  std::vector<std::vector<T>> result(static_cast<size_t>(n),
                                     std::vector<T>(static_cast<size_t>(size)));
  for (auto& array : result) {
    for (auto& x : array) {
      if constexpr (sizeof(T) < 4) {
        x = static_cast<T>(static_cast<int>(normal(engine)));  // wraps around
      } else {
        x = static_cast<T>(normal(engine));
      }
    }
  }
  return result;
}

template <typename T>
class TreeSumTest : public testing::Test {};
using Types = testing::Types<float, double, int32_t, int64_t, int16_t, int8_t, uint8_t>;
TYPED_TEST_SUITE(TreeSumTest, Types);

TYPED_TEST(TreeSumTest, FollowsTheTreeOnEveryInstructionSet) {
  std::mt19937 engine(3);
  for (int n = 0; n <= 70; n = n < 20 ? n + 1 : n + 25) {
    for (const int64_t size : {0, 1, 17, 1024, 2500}) {
      const auto data = arrays<TypeParam>(n, size, 7);
      for (int pattern = 0; pattern < 3; ++pattern) {
        std::vector<const TypeParam*> sources;
        for (const auto& array : data) {
          sources.push_back(pattern > 0 && engine() % 3 == 0 ? nullptr : array.data());
        }
        for (int op = 0; op < 3; ++op) {
          for (int i = 0; i < kNumCpuIsas; ++i) {
            const auto isa = static_cast<CpuIsa>(i);
            if (!cpu_supports(isa)) continue;
            std::vector<TypeParam> out(static_cast<size_t>(size), TypeParam(-1));
            reduce_in_tree_order_with(tree_kernels(isa), op, sources.data(), n, size, out.data());
            for (int64_t e = 0; e < size; ++e) {
              const auto expected =
                  naive(static_cast<TreeOp>(op), sources.data(), n, e).value_or(TypeParam(0));
              ASSERT_EQ(out[static_cast<size_t>(e)], expected)
                  << n << " " << size << " " << op << " " << i;
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(TreeSumTest, WritesOverOneOfItsSources) {
  for (int n = 1; n <= 9; ++n) {
    for (int target = 0; target < n; ++target) {
      for (const bool gap : {false, true}) {
        auto data = arrays<TypeParam>(n, 3000, 11);
        std::vector<const TypeParam*> sources;
        for (const auto& array : data) sources.push_back(array.data());
        if (gap && n > 2) sources[static_cast<size_t>((target + 1) % n)] = nullptr;
        std::vector<TypeParam> expected(3000);
        sum_in_tree_order(sources.data(), n, 3000, expected.data());
        sum_in_tree_order(sources.data(), n, 3000, data[static_cast<size_t>(target)].data());
        EXPECT_EQ(data[static_cast<size_t>(target)], expected) << n << " " << target;
      }
    }
  }
}

TEST(TreeOrderTest, SplitsAtTheLargestPowerOfTwo) {
  EXPECT_EQ(tree_left_count(2), 1);
  EXPECT_EQ(tree_left_count(3), 2);
  EXPECT_EQ(tree_left_count(4), 2);
  EXPECT_EQ(tree_left_count(5), 4);
  EXPECT_EQ(tree_left_count(8), 4);
  EXPECT_EQ(tree_left_count(9), 8);
  // ((a+b)+(c+d)) + ((e+f)+g), told apart from other orders by rounding.
  const float values[] = {1e8F, 1, -1e8F, 3, 1e8F, -1e8F, 7};
  const float* sources[7];
  for (int i = 0; i < 7; ++i) sources[i] = &values[i];
  float out;
  sum_in_tree_order(sources, 7, 1, &out);
  EXPECT_EQ(out, ((values[0] + values[1]) + (values[2] + values[3])) +
                     ((values[4] + values[5]) + values[6]));
}

TEST(TreeOrderTest, NanWinsInMinAndMax) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), one = 1;
  for (const TreeOp op : {TreeOp::kMin, TreeOp::kMax}) {
    const float* first[] = {&nan, &one};
    const float* second[] = {&one, &nan};
    float out = 0;
    reduce_in_tree_order(op, first, 2, 1, &out);
    EXPECT_TRUE(std::isnan(out));
    reduce_in_tree_order(op, second, 2, 1, &out);
    EXPECT_TRUE(std::isnan(out));
  }
}

TEST(TreeOrderTest, TensorsGiveTheSameBits) {
  std::vector<at::Tensor> tensors;
  std::vector<const float*> sources;
  for (int i = 0; i < 7; ++i) {
    tensors.push_back(i == 2 ? at::Tensor() : at::randn({33}));
    sources.push_back(i == 2 ? nullptr : tensors.back().const_data_ptr<float>());
  }
  for (const TreeOp op : {TreeOp::kSum, TreeOp::kMin, TreeOp::kMax}) {
    at::Tensor out = at::empty({33});
    reduce_in_tree_order(op, sources.data(), 7, 33, out.mutable_data_ptr<float>());
    EXPECT_TRUE(at::equal(reduce_in_tree_order(op, tensors), out));
  }
  EXPECT_FALSE(reduce_in_tree_order(TreeOp::kSum, {at::Tensor(), at::Tensor()}).defined());
}

}  // namespace
}  // namespace strata::tensor
