#include "kernels/bf16_products.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "core/cpu_isa.h"
#include "kernels/fenced.h"
#include "kernels/isas.h"
#include "kernels/kernel_threads.h"
#include "kernels/matmul_kernels.h"
#include "kernels/matmul_problem.h"
#include "kernels/replica_like.h"
#include "kernels/scratch.h"
#include "strata/kernels/cpu_kernels.h"

namespace strata::kernels {
namespace {

/// The ways of our own that this processor runs.
std::vector<Bf16Products> own_ways() {
  std::vector<Bf16Products> ways = {Bf16Products::kOwnFloat};
  const Bf16Products chosen = bf16_products();
  if (chosen == Bf16Products::kAmx) ways.push_back(Bf16Products::kAmx);
  // Where there is AMX there is AVX512_BF16.
  if (chosen == Bf16Products::kAmx || chosen == Bf16Products::kOwn) {
    ways.push_back(Bf16Products::kOwn);
  }
  return ways;
}

/// Of all elements, relative to the sums of the products' magnitudes; half a unit in the last place
/// of bfloat16 is 2^-9.
double error_of(const at::Tensor& got, const at::Tensor& a, const at::Tensor& b,
                const at::Tensor& bias = {}) {
  at::Tensor want = a.to(at::kDouble).matmul(b.to(at::kDouble));
  if (bias.defined()) want = want + bias.to(at::kDouble);
  if (want.numel() == 0) return 0;
  return ((got.to(at::kDouble) - want).abs() / (want.abs() + 1e-3)).max().item<double>();
}

at::Tensor matrix(int64_t rows, int64_t columns, bool by_columns) {
  return (by_columns ? torch::randn({columns, rows}).t() : torch::randn({rows, columns}))
      .to(at::kBFloat16);
}

const std::vector<std::tuple<int64_t, int64_t, int64_t>> kSizes = {
    {1, 1, 1},      {1, 17, 3},    {17, 1, 5},    {4, 4, 2},     {6, 64, 192},  {7, 65, 193},
    {13, 31, 385},  {16, 16, 16},  {64, 10, 63},  {64, 256, 16}, {64, 300, 40}, {33, 784, 20},
    {97, 129, 201}, {100, 48, 99}, {5, 80, 1},    {130, 12, 7},  {12, 33, 900}, {3, 300, 101},
    {300, 3, 100},  {5, 70, 4101}, {70, 5, 8195}, {2, 70, 4097}, {24, 300, 150}};

TEST(Bf16ProductsTest, SumsAreFloatsAndRoundedOnceForAllLayoutsAndSizes) {
  torch::manual_seed(5);
  for (const auto& [m, n, k] : kSizes) {
    const at::Tensor a = matrix(m, k, false);
    const at::Tensor b = matrix(k, n, false);
    const at::Tensor bias = torch::randn({n}).to(at::kBFloat16);
    const at::Tensor product = a.to(at::kDouble).mm(b.to(at::kDouble));
    for (int layout = 0; layout < 8; ++layout) {
      const at::Tensor left = (layout & 1) != 0 ? a.t().contiguous().t() : a;
      const at::Tensor right = (layout & 2) != 0 ? b.t().contiguous().t() : b;
      const at::Tensor row = (layout & 4) != 0 ? bias : at::Tensor();
      for (const Bf16Products way : own_ways()) {
        const auto half = detail::own_bf16_product(left, right, row, at::kBFloat16, way);
        const auto whole = detail::own_bf16_product(left, right, row, at::kFloat, way);
        ASSERT_TRUE(half && whole);
        EXPECT_LT(largest_error(*whole, row.defined() ? product + bias : product), 1e-5)
            << m << " x " << k << " x " << n << " layout " << layout;
        EXPECT_TRUE(same_bits(*half, whole->to(at::kBFloat16)))
            << m << " x " << k << " x " << n << " layout " << layout;
      }
    }
  }
}

/// What the float kernels of an instruction set give for bfloat16: rounded, and as floats.
std::pair<at::Tensor, at::Tensor> widening_product(CpuIsa isa, const at::Tensor& a,
                                                   const at::Tensor& b, const at::Tensor& bias) {
  const auto view = [](const at::Tensor& x) {
    return Bf16View{static_cast<const uint16_t*>(x.const_data_ptr()), x.stride(0), x.stride(1)};
  };
  constexpr int64_t kBehind = 3;
  const MatmulKernels& kernels = matmul_kernels(isa);
  const SparseKernels& sparse_kernels = sparse_product(isa);
  const auto run = [&](at::ScalarType type) {
    at::Tensor c = torch::full({a.size(0), b.size(1) + kBehind}, -7, type);
    void* const to = c.mutable_data_ptr();
    const Bf16Problem problem{.m = a.size(0),
                              .n = b.size(1),
                              .k = a.size(1),
                              .a = view(a),
                              .b = view(b),
                              .bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr,
                              .c = type == at::kFloat ? nullptr : static_cast<uint16_t*>(to),
                              .c_float = type == at::kFloat ? static_cast<float*>(to) : nullptr,
                              .c_stride = c.stride(0)};
    const Scratch scratch(kernels.bf16_scratch_floats(problem));
    kernels.multiply_bf16(problem, scratch.data());
    EXPECT_TRUE(c.narrow(1, b.size(1), kBehind).eq(-7).all().item<bool>()) << "wrote behind a row";
    const at::Tensor dense = c.narrow(1, 0, b.size(1)).clone();
    const SparsePlan plan = sparse_kernels.plan_bf16(problem);
    if (!plan.worthwhile) return dense;
    const Scratch room(plan.scratch_floats);
    EXPECT_TRUE(sparse_kernels.multiply_bf16(problem, plan, room.data()));
    EXPECT_TRUE(same_bits(c.narrow(1, 0, b.size(1)), dense)) << "without zeros";
    EXPECT_TRUE(c.narrow(1, b.size(1), kBehind).eq(-7).all().item<bool>()) << "wrote behind a row";
    return dense;
  };
  return {run(at::kBFloat16), run(at::kFloat)};
}

/// Sizes of one and of several blocks of k, groups of columns and blocks of rows; every instruction
/// set, layout, with many zeros on either side and without.
TEST(Bf16ProductsTest, WideningAsItPacksHasTheBitsOfTheFloatProductOnEveryProcessor) {
  torch::manual_seed(12);
  std::vector<std::tuple<int64_t, int64_t, int64_t>> sizes = kSizes;
  for (const auto& more : {std::tuple<int64_t, int64_t, int64_t>{1100, 40, 300},
                           {60, 530, 260},
                           {1030, 270, 201},
                           {256, 784, 64},
                           {70, 250, 301}}) {
    sizes.push_back(more);
  }
  for (const auto& [m, n, k] : sizes) {
    for (int layout = 0; layout < 16; ++layout) {
      const auto sparse = [&](at::Tensor x, int side) {
        return (layout & 12) == side ? x * torch::rand(x.sizes()).lt(0.1) : x;
      };
      const at::Tensor a = sparse(torch::randn({m, k}), 4).to(at::kBFloat16);
      const at::Tensor b = sparse(torch::randn({k, n}), 8).to(at::kBFloat16);
      const at::Tensor bias = (layout & 12) != 0 ? torch::randn({n}) : at::Tensor();
      const at::Tensor left = (layout & 1) != 0 ? a.t().contiguous().t() : a;
      const at::Tensor right = (layout & 2) != 0 ? b.t().contiguous().t() : b;
      at::Tensor want = torch::empty({m, n});
      const at::Tensor wide_a = left.to(at::kFloat), wide_b = right.to(at::kFloat);
      const MatmulKernels& floats = matmul_kernels(best_cpu_isa());
      const MatmulProblem problem = problem_of(wide_a, wide_b, bias, want);
      const Scratch scratch(floats.scratch_floats(problem));
      floats.multiply(problem, scratch.data());
      for (const CpuIsa isa : supported_isas()) {
        // A call for each multiplication.
        if (isa == CpuIsa::kBaseline && (m * n * k > 1 << 20 || layout % 5 != 0)) continue;
        SCOPED_TRACE(testing::Message() << m << " x " << k << " x " << n << " layout " << layout
                                        << " " << name_of(isa));
        const auto [half, whole] = widening_product(isa, left, right, bias);
        EXPECT_TRUE(same_bits(whole, want));
        EXPECT_TRUE(same_bits(half, want.to(at::kBFloat16)));
      }
    }
  }
}

TEST(Bf16ProductsTest, AsExactAsTheEnginesByEitherWay) {
  torch::manual_seed(6);
  for (const auto& [m, n, k] : kSizes) {
    const at::Tensor a = matrix(m, k, false);
    const at::Tensor b = matrix(k, n, true);
    const double engine = largest_error(a.mm(b), a.to(at::kDouble).mm(b.to(at::kDouble)));
    std::vector<at::Tensor> results = {detail::product_of_floats(a, b, {}, at::kBFloat16)};
    for (const Bf16Products way : own_ways()) {
      results.push_back(*detail::own_bf16_product(a, b, {}, at::kBFloat16, way));
    }
    for (const at::Tensor& c : results) {
      ASSERT_EQ(c.scalar_type(), at::kBFloat16);
      EXPECT_LE(largest_error(c, a.to(at::kDouble).mm(b.to(at::kDouble))), engine + 1e-5)
          << m << " x " << k << " x " << n;
    }
  }
}

TEST(Bf16ProductsTest, ReplicasMultiplyStridedPartsAndBatches) {
  torch::manual_seed(7);
  const at::Tensor a = torch::randn({6, 20, 61}).to(at::kBFloat16);
  const at::Tensor b = torch::randn({6, 61, 33}).to(at::kBFloat16);
  const at::Tensor bias = torch::randn({66}).to(at::kBFloat16).slice(0, 0, 66, 2);
  const at::Tensor odd = a.slice(2, 0, 61, 2);  // neither rows nor columns side by side
  const at::Tensor part = b.narrow(1, 3, 31);
  const ReplicaLike replica;
  EXPECT_LT(error_of(at::bmm(a, b), a, b), 0.02);
  EXPECT_LT(
      error_of(at::bmm(b.transpose(1, 2), a.transpose(1, 2)), b.transpose(1, 2), a.transpose(1, 2)),
      0.02);
  EXPECT_LT(largest_error(at::bmm(odd, part), odd.to(at::kDouble).bmm(part.to(at::kDouble))), 4e-3);
  EXPECT_LT(largest_error(at::addmm(bias, odd[1], part[1]),
                          odd[1].to(at::kDouble).mm(part[1].to(at::kDouble)) + bias),
            4e-3);
  EXPECT_EQ(at::mm(a[0].narrow(1, 0, 0), b[0].narrow(0, 0, 0)).abs().sum().item<float>(), 0);
  EXPECT_EQ(at::mm(a[0].narrow(0, 0, 0), b[0]).numel(), 0);
}

TEST(Bf16ProductsTest, BitsDependOnTheRowTheColumnAndTheLengthAlone) {
  torch::manual_seed(8);
  const at::Tensor a = matrix(150, 777, false);
  const at::Tensor b = matrix(777, 333, false);
  for (const Bf16Products way : own_ways()) {
    const auto product = [way](const at::Tensor& x, const at::Tensor& y) {
      return *detail::own_bf16_product(x, y, {}, at::kFloat, way);
    };
    const at::Tensor whole = product(a, b);
    EXPECT_TRUE(same_bits(product(a.t().contiguous().t(), b), whole));
    EXPECT_TRUE(same_bits(product(a, b.t().contiguous().t()), whole));
    EXPECT_TRUE(same_bits(product(b.t(), a.t()), whole.t()));
    EXPECT_TRUE(
        same_bits(product(a.narrow(0, 7, 5), b.t().contiguous().t()), whole.narrow(0, 7, 5)));
    EXPECT_TRUE(same_bits(product(a, b.narrow(1, 5, 70)), whole.narrow(1, 5, 70)));
  }
}

TEST(Bf16ProductsTest, BitsDoNotDependOnTheNumberOfThreads) {
  torch::manual_seed(9);
  const at::Tensor batch = torch::randn({9, 100, 129}).to(at::kBFloat16);
  for (const auto& [m, n, k] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
           {256, 300, 257}, {700, 65, 300}, {64, 1100, 300}}) {
    const at::Tensor a = matrix(m, k, false);
    const at::Tensor b = matrix(k, n, true);
    for (const Bf16Products way : own_ways()) {
      std::vector<at::Tensor> first;
      for (int threads = 1; threads <= 7; ++threads) {
        set_kernel_threads(threads);
        const std::vector<at::Tensor> now = {
            *detail::own_bf16_product(a, b, {}, at::kBFloat16, way),
            *detail::own_bf16_product(batch, batch.transpose(1, 2), {}, at::kBFloat16, way)};
        if (threads == 1) first = now;
        for (size_t i = 0; i < now.size(); ++i) EXPECT_TRUE(same_bits(now[i], first[i])) << threads;
      }
      set_kernel_threads(0);
    }
  }
}

TEST(Bf16ProductsTest, NanAndInfinityReachWhatTheyReachInTheEngine) {
  torch::manual_seed(10);
  const float inf = std::numeric_limits<float>::infinity();
  at::Tensor a = torch::randn({9, 41});
  at::Tensor b = torch::randn({41, 37});
  a[2][40] = std::numeric_limits<float>::quiet_NaN();
  a[5][0] = inf;
  b[0][3] = 0;
  b[7][11] = -inf;
  a[1][7] = 0;
  b[40][20] = inf;
  a = a.to(at::kBFloat16);
  b = b.to(at::kBFloat16);
  const at::Tensor want = a.to(at::kFloat).mm(b.to(at::kFloat));
  for (const Bf16Products way : own_ways()) {
    const at::Tensor got = detail::own_bf16_product(a, b, {}, at::kBFloat16, way)->to(at::kFloat);
    EXPECT_TRUE(got.isnan().equal(want.isnan()));
    EXPECT_TRUE(got.isposinf().equal(want.isposinf()));
    EXPECT_TRUE(got.isneginf().equal(want.isneginf()));
  }
}

TEST(Bf16ProductsTest, TouchesNothingBesideItsTensors) {
  torch::manual_seed(11);
  for (const auto& [m, n, k] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
           {5, 33, 7}, {13, 70, 33}, {3, 200, 65}, {1, 1, 1}, {64, 15, 31}}) {
    for (int layout = 0; layout < 4; ++layout) {
      for (const auto at : {FencedBytes::At::kEnd, FencedBytes::At::kStart}) {
        const FencedTensor a(matrix(m, k, (layout & 1) != 0), at);
        const FencedTensor b(matrix(k, n, (layout & 2) != 0), at);
        const FencedTensor bias(torch::randn({n}).to(at::kBFloat16), at);
        const at::Tensor want = a.tensor().to(at::kDouble).mm(b.tensor().to(at::kDouble));
        for (const Bf16Products way : own_ways()) {
          const auto c =
              detail::own_bf16_product(a.tensor(), b.tensor(), bias.tensor(), at::kFloat, way);
          EXPECT_LT(largest_error(*c, want + bias.tensor()), 1e-5);
        }
      }
    }
  }
}

TEST(Bf16ProductsTest, EachProcessorHasItsWay) {
  using detail::bf16_products_for;
  EXPECT_EQ(bf16_products_for(true, true, true), Bf16Products::kAmx);
  EXPECT_EQ(bf16_products_for(true, true, false), Bf16Products::kEngine);
  EXPECT_EQ(bf16_products_for(true, false, true), Bf16Products::kEngine);
  EXPECT_EQ(bf16_products_for(false, true, true), Bf16Products::kOwn);
  EXPECT_EQ(bf16_products_for(false, true, false), Bf16Products::kFloatCopy);
  EXPECT_EQ(bf16_products_for(false, false, true), Bf16Products::kOwnFloat);
}

}  // namespace
}  // namespace strata::kernels
