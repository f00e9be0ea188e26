#include "strata/kernels/cpu_kernels.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <thread>
#include <tuple>
#include <vector>

#include "core/cpu_isa.h"
#include "kernels/fenced.h"
#include "kernels/isas.h"
#include "kernels/matmul_kernels.h"
#include "kernels/matmul_problem.h"
#include "kernels/replica_like.h"
#include "kernels/scratch.h"

namespace strata::kernels {
namespace {

/// Runs the kernel itself, whatever this processor's rule is.
at::Tensor own_product(CpuIsa isa, const at::Tensor& a, const at::Tensor& b,
                       const at::Tensor& bias = {}, int64_t padding = 0) {
  const MatmulKernels& kernels = matmul_kernels(isa);
  at::Tensor c = torch::full({a.size(0), b.size(1) + padding}, -7.0f);
  const MatmulProblem problem = problem_of(a, b, bias, c);
  const Scratch scratch(kernels.scratch_floats(problem));
  kernels.multiply(problem, scratch.data());
  EXPECT_TRUE(c.narrow(1, b.size(1), padding).eq(-7).all().item<bool>()) << "wrote behind the row";
  return c.narrow(1, 0, b.size(1));
}

using Size = std::tuple<int64_t, int64_t, int64_t>;

const std::vector<Size>& product_sizes() {
  static const std::vector<Size> sizes = {
      {1, 1, 1},      {1, 17, 3},     {17, 1, 5},      {4, 4, 2},     {6, 64, 192},  {7, 65, 193},
      {13, 31, 385},  {16, 16, 16},   {64, 10, 63},    {64, 256, 16}, {64, 300, 40}, {33, 784, 20},
      {97, 129, 200}, {200, 48, 500}, {5, 80, 1},      {130, 12, 7},  {12, 33, 900}, {100, 32, 11},
      {3, 600, 300},  {600, 3, 300},  {64, 1100, 300}, {65, 70, 256}, {70, 65, 257}};
  return sizes;
}

class MatmulKernelTest : public testing::TestWithParam<CpuIsa> {
 protected:
  void SetUp() override { torch::manual_seed(5); }

  static at::Tensor own_product(const at::Tensor& a, const at::Tensor& b,
                                const at::Tensor& bias = {}, int64_t padding = 0) {
    return kernels::own_product(GetParam(), a, b, bias, padding);
  }

  /// [rows, columns], as `by_columns` asks.
  static at::Tensor matrix(int64_t rows, int64_t columns, bool by_columns) {
    return by_columns ? torch::randn({columns, rows}).t() : torch::randn({rows, columns});
  }
};

INSTANTIATE_TEST_SUITE_P(Isas, MatmulKernelTest, testing::ValuesIn(supported_isas()),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(MatmulKernelTest, AgreesWithDoubleForAllLayoutsAndSizes) {
  for (const auto& [m, n, k] : product_sizes()) {
    for (int layout = 0; layout < 8; ++layout) {
      const at::Tensor a = matrix(m, k, (layout & 1) != 0);
      const at::Tensor b = matrix(k, n, (layout & 2) != 0);
      const at::Tensor bias = (layout & 4) != 0 ? torch::randn({n}) : at::Tensor();
      at::Tensor want = a.to(at::kDouble).mm(b.to(at::kDouble));
      if (bias.defined()) want = want + bias;
      EXPECT_LT(largest_error(own_product(a, b, bias, layout % 3), want), 1e-5)
          << m << " x " << k << " x " << n << " layout " << layout;
    }
  }
}

TEST_P(MatmulKernelTest, ReadsPartsOfLargerMatrices) {
  const at::Tensor a = torch::randn({70, 500}).narrow(1, 11, 300).narrow(0, 3, 60);
  const at::Tensor b = torch::randn({90, 400}).narrow(1, 7, 300).narrow(0, 1, 80).t();
  EXPECT_LT(largest_error(own_product(a, b), a.to(at::kDouble).mm(b.to(at::kDouble))), 1e-5);
  EXPECT_LT(
      largest_error(own_product(b.t(), a.t()), b.t().to(at::kDouble).mm(a.t().to(at::kDouble))),
      1e-5);
}

// What a replica computes must not depend on how many examples its neighbours have, or where
// tensors lie.
TEST_P(MatmulKernelTest, BitsDependOnTheRowTheColumnAndTheLengthAlone) {
  const at::Tensor a = torch::randn({150, 777});
  const at::Tensor b = torch::randn({777, 333});
  const at::Tensor bias = torch::randn({333});
  const at::Tensor whole = own_product(a, b, bias);
  const at::Tensor a_by_columns = a.t().contiguous().t();
  const at::Tensor b_by_columns = b.t().contiguous().t();
  EXPECT_TRUE(same_bits(own_product(a_by_columns, b, bias), whole));
  EXPECT_TRUE(same_bits(own_product(a, b_by_columns, bias), whole));
  EXPECT_TRUE(same_bits(own_product(a_by_columns, b_by_columns, bias), whole));
  EXPECT_TRUE(same_bits(own_product(b.t(), a.t()), own_product(a, b).t()));
  for (const int64_t rows : {1, 4, 5, 64, 149}) {
    EXPECT_TRUE(same_bits(own_product(a.narrow(0, 150 - rows, rows), b_by_columns, bias),
                          whole.narrow(0, 150 - rows, rows)))
        << rows;
  }
  for (const int64_t columns : {1, 10, 63, 200}) {
    EXPECT_TRUE(same_bits(own_product(a, b.narrow(1, 5, columns), bias.narrow(0, 5, columns)),
                          whole.narrow(1, 5, columns)))
        << columns;
  }
}

TEST_P(MatmulKernelTest, NanAndInfinityStayInTheirRowsAndColumns) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  at::Tensor a = torch::randn({9, 40});
  const at::Tensor b = torch::randn({40, 37});
  const at::Tensor clean = own_product(a, b);
  a[2][39] = nan;
  a[5][0] = std::numeric_limits<float>::infinity();
  const at::Tensor c = own_product(a, b);
  EXPECT_TRUE(c[2].isnan().all().item<bool>());
  EXPECT_TRUE(c[5].isinf().all().item<bool>());
  for (const int64_t row : {0, 1, 3, 4, 6, 7, 8}) EXPECT_TRUE(same_bits(c[row], clean[row]));
}

TEST_P(MatmulKernelTest, TouchesNothingBesideItsMatrices) {
  for (const auto at : {Fenced::At::kEnd, Fenced::At::kStart}) {
    for (const auto& [m, n, k] : product_sizes()) {
      for (int layout = 0; layout < 4; ++layout) {
        const at::Tensor a_values = torch::randn({m, k});
        const at::Tensor b_values = torch::randn({k, n});
        const Fenced a(a_values, at), b(b_values, at), bias(n, at), c(m * n, at);
        const MatmulKernels& kernels = matmul_kernels(GetParam());
        const MatmulProblem problem{
            m,
            n,
            k,
            (layout & 1) != 0 ? MatrixView{a.data(), 1, m} : MatrixView{a.data(), k, 1},
            (layout & 2) != 0 ? MatrixView{b.data(), 1, k} : MatrixView{b.data(), n, 1},
            bias.data(),
            c.data(),
            n};
        const Scratch scratch(kernels.scratch_floats(problem));
        kernels.multiply(problem, scratch.data());
      }
    }
  }
}

TEST(MatmulIsaTest, InstructionSetsGiveTheSameBits) {
  torch::manual_seed(12);
  for (const auto& [m, n, k] : product_sizes()) {
    for (int layout = 0; layout < 8; ++layout) {
      const at::Tensor a = (layout & 1) != 0 ? torch::randn({k, m}).t() : torch::randn({m, k});
      const at::Tensor b = (layout & 2) != 0 ? torch::randn({n, k}).t() : torch::randn({k, n});
      const at::Tensor bias = (layout & 4) != 0 ? torch::randn({n}) : at::Tensor();
      const at::Tensor want = own_product(CpuIsa::kBaseline, a, b, bias);
      for (const CpuIsa isa : supported_isas()) {
        EXPECT_TRUE(same_bits(own_product(isa, a, b, bias), want))
            << m << " x " << k << " x " << n << " layout " << layout << " " << name_of(isa);
      }
    }
  }
}

TEST(EngineKernelsTest, ProductsEqualTheEnginesAndEmptyOnesToo) {
  torch::manual_seed(6);
  for (const int64_t m : {0, 1, 3, 64, 65}) {
    for (const int64_t k : {0, 1, 31, 256}) {
      for (const int64_t n : {0, 1, 10, 300}) {
        const at::Tensor a = torch::randn({m, k});
        const at::Tensor w = torch::randn({n, k});
        const at::Tensor bias = torch::randn({n});
        const std::vector<at::Tensor> want = {a.mm(w.t()), at::addmm(bias, a, w.t()),
                                              at::linear(a, w, bias),
                                              at::addmm(bias, a, w.t(), 0.5, 2.0), a.matmul(w.t())};
        const ReplicaLike replica;
        const std::vector<at::Tensor> got = {a.mm(w.t()), at::addmm(bias, a, w.t()),
                                             at::linear(a, w, bias),
                                             at::addmm(bias, a, w.t(), 0.5, 2.0), a.matmul(w.t())};
        for (size_t i = 0; i < want.size(); ++i) {
          ASSERT_EQ(got[i].sizes(), want[i].sizes());
          EXPECT_LT(largest_error(got[i], want[i]), 1e-5)
              << m << " " << k << " " << n << " form " << i;
        }
      }
    }
  }
}

TEST(EngineKernelsTest, OddStridesAndBatches) {
  torch::manual_seed(7);
  const at::Tensor a = torch::randn({6, 20, 60}).slice(2, 0, 60, 2);
  const at::Tensor b = torch::randn({6, 30, 40});
  const at::Tensor row = torch::randn({1, 30}).expand({20, 30});
  const at::Tensor one = torch::ones({}).expand({30, 40});
  const at::Tensor bias = torch::randn({20, 40});
  const auto all = [&] {
    return std::vector<at::Tensor>{
        at::bmm(a, b),
        at::bmm(b.transpose(1, 2), a.transpose(1, 2)),
        a[1].mm(b[1]),
        row.mm(b[0]),
        a[0].mm(one),
        at::addmm(bias, a[2], b[2]),
        at::addmm(bias[0].slice(0, 0, 40, 2), a[2], b[2].narrow(1, 0, 20)),
        at::bmm(torch::zeros({0, 8, 8}), torch::zeros({0, 8, 8}))};
  };
  const auto want = all();
  const ReplicaLike replica;
  const auto got = all();
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i].sizes(), want[i].sizes());
    EXPECT_LT(largest_error(got[i], want[i]), 1e-5) << i;
  }
}

TEST(EngineKernelsTest, ErrorsOfWrongShapesAreTheEngines) {
  const ReplicaLike replica;
  EXPECT_THROW(torch::ones({8, 9}).mm(torch::ones({8, 9})), c10::Error);
  EXPECT_THROW(torch::ones({8, 9}).mm(torch::ones({9, 8}, at::kDouble)), c10::Error);
  EXPECT_THROW(at::max_pool2d_with_indices(torch::ones({2, 2, 1, 1}), 2), c10::Error);
}

TEST(EngineKernelsTest, NothingChangesOutsideTheGuardAndForDoubles) {
  torch::manual_seed(8);
  const at::Tensor a = torch::randn({64, 300});
  const at::Tensor b = torch::randn({300, 100});
  const at::Tensor plain = a.mm(b);
  const at::Tensor doubles = a.to(at::kDouble).mm(b.to(at::kDouble));
  {
    const ReplicaLike replica;
    EXPECT_TRUE(same_bits(a.to(at::kDouble).mm(b.to(at::kDouble)), doubles));
    a.mm(b);
  }
  EXPECT_TRUE(same_bits(a.mm(b), plain));
}

TEST(EngineKernelsTest, BitsAreTheSameOnEveryThread) {
  torch::manual_seed(9);
  const at::Tensor a = torch::randn({64, 784});
  const at::Tensor w = torch::randn({256, 784});
  const at::Tensor bias = torch::randn({256});
  const auto run = [&] {
    const ReplicaLike replica;
    return at::addmm(bias, a, w.t());
  };
  const at::Tensor here = run();
  std::vector<at::Tensor> there(4);
  std::vector<std::thread> threads;
  for (auto& result : there) threads.emplace_back([&] { result = run(); });
  for (auto& thread : threads) thread.join();
  for (const auto& result : there) EXPECT_TRUE(same_bits(result, here));
}

TEST(EngineKernelsTest, BitsDoNotDependOnIntraOpThreads) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer does not see how OpenMP's threads wait";
#endif
  if (describe_cpu_kernels().find("matmul: strata") == std::string::npos) {
    GTEST_SKIP() << "the engine's products promise less";
  }
  torch::manual_seed(10);
  const at::Tensor a = torch::randn({150, 1000});
  const at::Tensor b = torch::randn({1000, 500});
  const ReplicaLike replica;
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = a.mm(b);
  const at::Tensor one_tall = b.t().mm(a.t());
  for (int threads = 2; threads <= 7; ++threads) {
    at::set_num_threads(threads);
    EXPECT_TRUE(same_bits(one, a.mm(b))) << threads;
    EXPECT_TRUE(same_bits(one_tall, b.t().mm(a.t()))) << threads;
  }
  at::set_num_threads(before);
}

TEST(EngineKernelsTest, GradientsAndSecondGradients) {
  torch::manual_seed(11);
  const at::Tensor x = torch::randn({5, 6}, at::kDouble);
  const at::Tensor w = torch::randn({7, 6}, at::kDouble);
  const at::Tensor bias = torch::randn({7}, at::kDouble);
  // |d loss / d x|^2, differentiated again.
  const auto second = [&](at::ScalarType type) {
    const at::Tensor input = x.to(type).clone().requires_grad_();
    const at::Tensor weight = w.to(type).clone().requires_grad_();
    const at::Tensor loss = at::linear(input, weight, bias.to(type)).tanh().sum();
    const auto first = torch::autograd::grad({loss}, {input, weight}, {}, true, true);
    first[0].square().sum().backward();
    return std::vector<at::Tensor>{first[0].detach(), first[1].detach(), input.grad(),
                                   weight.grad()};
  };
  const auto want = second(at::kDouble);
  const ReplicaLike replica;
  const auto got = second(at::kFloat);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_LT(largest_error(got[i], want[i]), 1e-5) << i;
}

TEST(EngineKernelsTest, AWeightsGradientHasItsStrides) {
  const ReplicaLike replica;
  torch::nn::Linear layer(64, 32);
  layer->forward(torch::randn({16, 64})).sum().backward();
  layer->zero_grad();
  layer->forward(torch::randn({16, 64})).square().sum().backward();
  EXPECT_EQ(layer->weight.grad().strides(), layer->weight.strides());
}

TEST(EngineKernelsTest, DescribesItself) {
  const std::string text = describe_cpu_kernels();
  EXPECT_NE(text.find("matmul: "), std::string::npos);
  EXPECT_NE(text.find("convolution: "), std::string::npos);
  EXPECT_NE(text.find("max_pool2d: "), std::string::npos);
}

}  // namespace
}  // namespace strata::kernels
