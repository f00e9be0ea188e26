// Products that leave the zeros of one side out, against those that do not.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

#include "core/cpu_isa.h"
#include "kernels/isas.h"
#include "kernels/matmul_kernels.h"
#include "kernels/matmul_problem.h"
#include "kernels/replica_like.h"
#include "kernels/scratch.h"

namespace strata::kernels {
namespace {

constexpr int64_t kPadding = 3;

at::Tensor room_for(const at::Tensor& a, const at::Tensor& b) {
  return torch::full({a.size(0), b.size(1) + kPadding}, -7.0f);
}

at::Tensor dense_product(CpuIsa isa, const at::Tensor& a, const at::Tensor& b,
                         const at::Tensor& bias) {
  at::Tensor c = room_for(a, b);
  const MatmulProblem problem = problem_of(a, b, bias, c);
  const MatmulKernels& kernels = matmul_kernels(isa);
  const Scratch scratch(kernels.scratch_floats(problem));
  kernels.multiply(problem, scratch.data());
  return c.narrow(1, 0, b.size(1));
}

SparsePlan sparse_plan(CpuIsa isa, const at::Tensor& a, const at::Tensor& b) {
  at::Tensor c = room_for(a, b);
  return sparse_product(isa).plan(problem_of(a, b, {}, c));
}

/// Nothing if it gives up.
std::optional<at::Tensor> sparse_result(CpuIsa isa, const at::Tensor& a, const at::Tensor& b,
                                        const at::Tensor& bias) {
  at::Tensor c = room_for(a, b);
  const MatmulProblem problem = problem_of(a, b, bias, c);
  const SparseKernels& kernels = sparse_product(isa);
  const SparsePlan plan = kernels.plan(problem);
  EXPECT_TRUE(plan.worthwhile);
  if (!plan.worthwhile) return std::nullopt;
  const Scratch scratch(plan.scratch_floats);
  if (!kernels.multiply(problem, plan, scratch.data())) return std::nullopt;
  EXPECT_TRUE(c.narrow(1, b.size(1), kPadding).eq(-7).all().item<bool>()) << "wrote behind the row";
  return c.narrow(1, 0, b.size(1));
}

/// [rows, columns], `density` of it not zero.
at::Tensor matrix(int64_t rows, int64_t columns, bool by_columns, double density = 1) {
  const at::Tensor values =
      torch::randn({rows, columns}) * torch::rand({rows, columns}).lt(density);
  return by_columns ? values.t().contiguous().t() : values;
}

class SparseProductTest : public testing::TestWithParam<CpuIsa> {
 protected:
  void SetUp() override { torch::manual_seed(9); }

  static at::Tensor dense_product(const at::Tensor& a, const at::Tensor& b,
                                  const at::Tensor& bias = {}) {
    return kernels::dense_product(GetParam(), a, b, bias);
  }
  static SparsePlan plan(const at::Tensor& a, const at::Tensor& b) {
    return sparse_plan(GetParam(), a, b);
  }
  static std::optional<at::Tensor> sparse_product(const at::Tensor& a, const at::Tensor& b,
                                                  const at::Tensor& bias = {}) {
    return sparse_result(GetParam(), a, b, bias);
  }
};

INSTANTIATE_TEST_SUITE_P(Isas, SparseProductTest, testing::ValuesIn(supported_isas()),
                         [](const auto& info) { return name_of(info.param); });

/// A product of numbers that are too small is -0, and so would be their sum, if no product of a zero
/// were added to it.
TEST_P(SparseProductTest, SumsThatUnderflowHaveTheSameSign) {
  for (const bool by_columns : {false, true}) {
    const at::Tensor a = matrix(64, 784, by_columns, 0.05).sign().mul_(1e-30);
    const at::Tensor b = matrix(784, 256, by_columns).sign().mul_(1e-30);
    const auto sparse = sparse_product(a, b);
    ASSERT_TRUE(sparse.has_value());
    EXPECT_FALSE(sparse->signbit().any().item<bool>());
    EXPECT_FALSE(dense_product(a, b).signbit().any().item<bool>());
    // No element of a is zero: the last product alone decides.
    EXPECT_FALSE(dense_product(torch::full({8, 3}, 1e-30), torch::full({3, 8}, -1e-30))
                     .signbit()
                     .any()
                     .item<bool>());
  }
}

TEST_P(SparseProductTest, HasTheBitsOfTheDenseOneForAllLayoutsAndSizes) {
  const std::vector<std::tuple<int64_t, int64_t, int64_t>> sizes = {
      {64, 256, 784}, {256, 784, 64},  {784, 256, 64}, {70, 250, 301},
      {131, 97, 193}, {333, 65, 80},   {90, 345, 81},  {97, 131, 577},
      {500, 129, 33}, {40, 1000, 192}, {96, 130, 256}, {130, 96, 257}};
  for (const auto& [m, n, k] : sizes) {
    for (int layout = 0; layout < 8; ++layout) {
      const bool of_b = (layout & 4) != 0;
      const at::Tensor a = matrix(m, k, (layout & 1) != 0, of_b ? 1 : 0.1);
      const at::Tensor b = matrix(k, n, (layout & 2) != 0, of_b ? 0.1 : 1);
      for (const bool with_bias : {false, true}) {
        // A call for each multiplication.
        if (GetParam() == CpuIsa::kBaseline && (layout % 5 != 0 || !with_bias)) continue;
        const at::Tensor bias = with_bias ? torch::randn({n}) : at::Tensor();
        const auto c = sparse_product(a, b, bias);
        ASSERT_TRUE(c) << m << " x " << k << " x " << n << " layout " << layout;
        EXPECT_TRUE(same_bits(*c, dense_product(a, b, bias)))
            << m << " x " << k << " x " << n << " layout " << layout << " bias " << with_bias;
      }
    }
  }
}

TEST_P(SparseProductTest, AgreesWithDouble) {
  const at::Tensor a = matrix(64, 784, false, 0.2);
  const at::Tensor b = matrix(784, 256, true);
  const auto c = sparse_product(a, b);
  ASSERT_TRUE(c);
  EXPECT_LT(largest_error(*c, a.to(at::kDouble).mm(b.to(at::kDouble))), 1e-5);
}

TEST_P(SparseProductTest, RowsOfZerosAndRowsWithoutAny) {
  at::Tensor a = matrix(128, 400, false, 0.05);
  a[0].zero_();
  a[127].zero_();
  a[5].fill_(1.5);
  a.narrow(1, 160, 160).zero_();
  const at::Tensor b = matrix(400, 100, false);
  const auto c = sparse_product(a, b);
  ASSERT_TRUE(c);
  EXPECT_TRUE(same_bits(*c, dense_product(a, b)));
  EXPECT_TRUE((*c)[0].eq(0).all().item<bool>());
  const at::Tensor zero = torch::zeros({128, 400});
  const auto nothing = sparse_product(zero, b);
  ASSERT_TRUE(nothing);
  EXPECT_TRUE(same_bits(*nothing, dense_product(zero, b)));
}

TEST_P(SparseProductTest, TakesTheSparserSideAndLeavesDenseOnesAlone) {
  const at::Tensor thin = matrix(256, 256, false, 0.1);
  const at::Tensor thinner = matrix(256, 256, false, 0.02);
  const at::Tensor full = matrix(256, 256, false);
  EXPECT_TRUE(plan(thin, thinner).of_b);
  EXPECT_FALSE(plan(thinner, thin).of_b);
  EXPECT_FALSE(plan(full, full).worthwhile);
  EXPECT_FALSE(plan(matrix(256, 256, false, 0.9), full).worthwhile);
  EXPECT_FALSE(plan(torch::zeros({16, 16}), torch::zeros({16, 16})).worthwhile) << "small";
}

// Zero times infinity is no zero.
TEST_P(SparseProductTest, GivesUpWhenTheOtherSideIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    for (const bool of_b : {false, true}) {
      at::Tensor a = matrix(128, 200, false, of_b ? 1 : 0.05);
      at::Tensor b = matrix(200, 130, false, of_b ? 0.05 : 1);
      EXPECT_TRUE(sparse_product(a, b));
      (of_b ? a : b)[-1][-1] = bad;
      EXPECT_FALSE(sparse_product(a, b)) << bad << of_b;
    }
  }
}

TEST_P(SparseProductTest, NanAndInfinityOfTheSparseSideCount) {
  at::Tensor a = matrix(128, 200, false, 0.05);
  a[7][11] = std::numeric_limits<float>::quiet_NaN();
  a[9][199] = std::numeric_limits<float>::infinity();
  const at::Tensor b = matrix(200, 130, false);
  const auto c = sparse_product(a, b);
  ASSERT_TRUE(c);
  EXPECT_TRUE((*c)[7].isnan().all().item<bool>());
  EXPECT_TRUE((*c)[9].isinf().all().item<bool>());
  EXPECT_TRUE(same_bits((*c)[8], dense_product(a, b)[8]));
}

TEST_P(SparseProductTest, GivesUpWhenTheSampleWasWrong) {
  // Every fifth row is looked at.
  at::Tensor a = torch::ones({160, 1600});
  for (int64_t row = 0; row < 160; row += 5) a[row].zero_();
  const at::Tensor b = matrix(1600, 64, false);
  ASSERT_TRUE(plan(a, b).worthwhile) << "the samples have moved";
  EXPECT_FALSE(sparse_product(a, b));
}

TEST(SparseProductsTest, ReplicasUseItAndGetTheSameResults) {
  torch::manual_seed(9);
  const at::Tensor x = matrix(64, 784, false, 0.2);
  at::Tensor w = torch::randn({256, 784});
  const auto step = [&] {
    at::Tensor weights = w.clone().requires_grad_();
    const at::Tensor y = torch::nn::functional::linear(x, weights, torch::ones({256}));
    y.square().sum().backward();
    return std::tuple{y.detach(), weights.grad()};
  };
  const auto [want, want_gradient] = step();
  const ReplicaLike replica;
  const auto [got, gradient] = step();
  EXPECT_LT(largest_error(got, want.to(at::kDouble)), 1e-5);
  EXPECT_LT(largest_error(gradient, want_gradient.to(at::kDouble)), 1e-5);
  EXPECT_EQ(gradient.strides(), w.strides());
  w[3][4] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::get<0>(step()).select(1, 3).isfinite().logical_not().all().item<bool>())
      << "0 * inf is NaN";
}

}  // namespace
}  // namespace strata::kernels
