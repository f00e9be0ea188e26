// NaN and infinity reach the outputs that they reach in libtorch, and no others: products and
// convolutions of random shapes, in replica functions and outside.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/replica_like.h"

namespace strata::kernels {
namespace {

class NotFiniteTest : public testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(41); }

  int64_t number(int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random_);
  }
  int64_t one_of(const std::vector<int64_t>& values) {
    return values[static_cast<size_t>(number(0, static_cast<int64_t>(values.size()) - 1))];
  }
  /// With one to three elements that are not finite, in memory of any order.
  at::Tensor spoiled(const at::Tensor& t) {
    constexpr std::array kBad = {std::numeric_limits<float>::quiet_NaN(),
                                 std::numeric_limits<float>::infinity(),
                                 -std::numeric_limits<float>::infinity()};
    at::Tensor result = t.clone();
    for (int64_t i = number(1, 3); i > 0; --i) {
      result.view({-1})[number(0, t.numel() - 1)] = kBad[static_cast<size_t>(number(0, 2))];
    }
    return result;
  }
  at::Tensor matrix(int64_t rows, int64_t columns, bool bad) {
    const bool by_columns = number(0, 1) == 1;
    at::Tensor values = by_columns ? torch::randn({columns, rows}) : torch::randn({rows, columns});
    if (bad) values = spoiled(values);
    return by_columns ? values.t() : values;
  }

  std::mt19937 random_{42};
};

void expect_alike(const at::Tensor& got, const at::Tensor& want, const std::string& where) {
  ASSERT_EQ(got.sizes(), want.sizes()) << where;
  EXPECT_TRUE(at::equal(kinds(got), kinds(want)))
      << where << ": " << (~got.isfinite()).sum().item<int64_t>()
      << " elements are not finite; expected " << (~want.isfinite()).sum().item<int64_t>();
  const at::Tensor finite = want.isfinite();
  EXPECT_LT(largest_error(got.masked_select(finite), want.masked_select(finite)), 1e-5) << where;
}

TEST_F(NotFiniteTest, Products) {
  for (int i = 0; i < 100; ++i) {
    const int64_t m = number(1, 70), n = number(1, 70), k = number(1, 400);
    const at::Tensor a = matrix(m, k, i % 3 != 1);
    const at::Tensor b = matrix(k, n, i % 3 == 1);
    const at::Tensor bias = i % 4 == 0 ? spoiled(torch::randn({n})) : torch::randn({n});
    const auto all = [&] {
      return std::vector<at::Tensor>{a.mm(b), at::addmm(bias, a, b),
                                     at::bmm(a.unsqueeze(0), b.unsqueeze(0))};
    };
    const auto want = all();
    const ReplicaLike replica;
    const auto got = all();
    for (size_t j = 0; j < want.size(); ++j) {
      expect_alike(got[j], want[j],
                   "case " + std::to_string(i) + ", " + std::to_string(m) + " x " +
                       std::to_string(k) + " x " + std::to_string(n) + ", product " +
                       std::to_string(j));
    }
  }
}

TEST_F(NotFiniteTest, Convolutions) {
  for (int i = 0; i < 120; ++i) {
    const int64_t groups = number(0, 4) == 0 ? 2 : 1;
    const int64_t in = groups * one_of({1, 2, 3, 4, 8, 17});
    const int64_t out = groups * one_of({4, 7, 16, 20});
    const std::vector<int64_t> kernel = i % 3 == 0 ? std::vector<int64_t>{3, 3}
                                        : i % 3 == 1
                                            ? std::vector<int64_t>{1, 1}
                                            : std::vector<int64_t>{number(1, 7), number(1, 7)};
    const std::vector<int64_t> stride =
        i % 2 == 0 ? std::vector<int64_t>{1, 1} : std::vector<int64_t>{number(1, 3), 2};
    const std::vector<int64_t> padding = {number(0, kernel[0] - 1), number(0, kernel[1] - 1)};
    const int64_t dilation = number(0, 6) == 0 ? 2 : 1;
    const at::Tensor x0 = torch::randn({number(1, 3), in, number(13, 30), number(13, 30)});
    const at::Tensor w0 = torch::randn({out, in / groups, kernel[0], kernel[1]});
    const at::Tensor bias0 = torch::randn({out});
    const at::Tensor dy0 =
        torch::randn(at::conv2d(x0, w0, bias0, stride, padding, dilation, groups).sizes());
    for (int place = 0; place < 3; ++place) {
      const at::Tensor given_x = place == 0 ? spoiled(x0) : x0;
      const at::Tensor given_w = place == 1 ? spoiled(w0) : w0;
      const at::Tensor dy = place == 2 ? spoiled(dy0) : dy0;
      const auto all = [&] {
        const at::Tensor x = given_x.clone().requires_grad_();
        const at::Tensor w = given_w.clone().requires_grad_();
        const at::Tensor bias = bias0.clone().requires_grad_();
        const at::Tensor y = at::conv2d(x, w, bias, stride, padding, dilation, groups);
        y.backward(dy);
        return std::vector<at::Tensor>{y.detach(), x.grad(), w.grad(), bias.grad()};
      };
      const auto want = all();
      const ReplicaLike replica;
      const auto got = all();
      for (size_t j = 0; j < want.size(); ++j) {
        std::ostringstream where;
        where << "case " << i << ": " << x0.sizes() << " -> " << out << ", kernel "
              << at::IntArrayRef(kernel) << ", stride " << at::IntArrayRef(stride) << ", padding "
              << at::IntArrayRef(padding) << ", dilation " << dilation << ", " << groups
              << " groups, spoiled: " << place << ", result " << j;
        expect_alike(got[j], want[j], where.str());
      }
    }
  }
}

}  // namespace
}  // namespace strata::kernels
