// Softmax of rows in replica functions, and its logarithm.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <vector>

#include "kernels/fenced.h"
#include "kernels/kernel_threads.h"
#include "kernels/replica_like.h"
#include "kernels/softmax_kernels.h"

namespace strata::kernels {
namespace {

struct RowResult {
  at::Tensor value, gradient;
};

RowResult softmax_of(bool logarithm, const at::Tensor& input, const at::Tensor& gradient,
                     int64_t dim = -1) {
  const at::Tensor x = input.detach().requires_grad_();
  const at::Tensor y = logarithm ? torch::log_softmax(x, dim) : torch::softmax(x, dim);
  y.backward(gradient);
  return {y.detach(), x.grad()};
}

class SoftmaxTest : public testing::Test {
 protected:
  SoftmaxTest() { torch::manual_seed(3); }
  template <typename Run>
  static auto outside(const Run& run) {
    const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::CustomRNGKeyId);
    return run();
  }
  ReplicaLike replica_;
};

TEST_F(SoftmaxTest, IsAsNearToDoubleAsLibtorchs) {
  for (const bool logarithm : {false, true}) {
    for (const int64_t columns : {1, 2, 10, 15, 33, 256, 1024, 1025, 30001}) {
      SCOPED_TRACE(testing::Message() << logarithm << " " << columns);
      const int64_t rows = std::max<int64_t>(40, 400'000 / columns);
      const at::Tensor x = torch::randn({rows, columns}) * 4;
      const at::Tensor dy = torch::randn({rows, columns});
      const auto own = softmax_of(logarithm, x, dy);
      const auto libtorchs = outside([&] { return softmax_of(logarithm, x, dy); });
      const auto want = softmax_of(logarithm, x.to(at::kDouble), dy.to(at::kDouble));
      const auto no_worse = [](const at::Tensor& got, const at::Tensor& other,
                               const at::Tensor& exact) {
        EXPECT_LE(largest_error(got, exact), std::max(1e-6, 2 * largest_error(other, exact)));
        EXPECT_LE(root_mean_square_error(got, exact), 1.25 * root_mean_square_error(other, exact));
      };
      no_worse(own.value, libtorchs.value, want.value);
      no_worse(own.gradient, libtorchs.gradient, want.gradient);
    }
  }
}

TEST_F(SoftmaxTest, NaNsAndInfinitiesReachWhatTheyReachInLibtorch) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const bool logarithm : {false, true}) {
    for (const int64_t columns : {5, 300}) {
      at::Tensor x = torch::randn({9, columns});
      x[0][0] = nan;
      x[1][columns - 1] = nan;
      x[2][3] = infinity;
      x[3][3] = -infinity;
      x[4].fill_(-infinity);
      x[5][1] = 3e38F;
      x[6][2] = -3e38F;
      at::Tensor dy = torch::randn({9, columns});
      dy[7][1] = nan;
      dy[8][1] = infinity;
      const auto own = softmax_of(logarithm, x, dy);
      const auto want = outside([&] { return softmax_of(logarithm, x, dy); });
      EXPECT_TRUE(own.value.isnan().equal(want.value.isnan())) << logarithm << columns;
      EXPECT_TRUE(own.value.isinf().equal(want.value.isinf())) << logarithm << columns;
      EXPECT_TRUE(own.gradient.isnan().equal(want.gradient.isnan())) << logarithm << columns;
      EXPECT_TRUE(own.gradient.isinf().equal(want.gradient.isinf())) << logarithm << columns;
    }
  }
}

TEST_F(SoftmaxTest, OthersAreLibtorchs) {
  const at::Tensor x = torch::randn({4, 5, 6});
  for (const bool logarithm : {false, true}) {
    for (const at::Tensor& each : {x, x.transpose(1, 2), x.to(at::kDouble)}) {
      const at::Tensor dy = torch::randn_like(each);
      for (const int64_t dim : {0, 1, 2}) {
        const auto own = softmax_of(logarithm, each, dy, dim);
        const auto want = outside([&] { return softmax_of(logarithm, each, dy, dim); });
        EXPECT_LT(largest_error(own.value, want.value), 1e-6);
        EXPECT_LT(largest_error(own.gradient, want.gradient), 1e-6);
      }
    }
  }
  EXPECT_EQ(torch::softmax(torch::empty({0, 4}), -1).numel(), 0);
  EXPECT_EQ(torch::softmax(torch::tensor(3.0F), 0).item<float>(), 1);
}

TEST_F(SoftmaxTest, ThreadsDoNotChangeBits) {
  const at::Tensor x = torch::randn({33000, 9}), dy = torch::randn({33000, 9});
  for (const bool logarithm : {false, true}) {
    RowResult one;
    for (int threads = 1; threads <= 7; ++threads) {
      set_kernel_threads(threads);
      const auto each = softmax_of(logarithm, x, dy);
      if (threads == 1) one = each;
      EXPECT_TRUE(same_bits(each.value, one.value)) << threads;
      EXPECT_TRUE(same_bits(each.gradient, one.gradient)) << threads;
    }
    set_kernel_threads(0);
  }
}

// At odd sizes, between pages that cannot be touched; in place too.
TEST_F(SoftmaxTest, InstructionSetsAgreeToTheBit) {
  for (const int64_t columns : {1, 3, 31, 33, 1027}) {
    const at::Tensor x = torch::randn({3, columns}) * 30, dy = torch::randn({3, columns});
    const auto run = [&](const SoftmaxKernels& kernels) {
      std::vector<at::Tensor> out;
      const auto take = [&](const Fenced& result) { out.push_back(result.tensor({3, columns})); };
      for (auto* forward : {kernels.softmax, kernels.log_softmax}) {
        const Fenced from(x), to(3 * columns);
        forward(from.data(), 3, columns, to.data());
        take(to);
        forward(from.data(), 3, columns, from.data());
        EXPECT_TRUE(same_bits(from.tensor({3, columns}), out.back()));
      }
      for (auto* backward : {kernels.softmax_backward, kernels.log_softmax_backward}) {
        const Fenced y(-x.abs()), gradient(dy), to(3 * columns);
        backward(gradient.data(), y.data(), 3, columns, to.data());
        take(to);
        backward(gradient.data(), y.data(), 3, columns, gradient.data());
        EXPECT_TRUE(same_bits(gradient.tensor({3, columns}), out.back()));
      }
      return out;
    };
    const auto baseline = run(softmax_kernels_baseline());
    const auto agree = [&](const std::vector<at::Tensor>& got, const char* name) {
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_TRUE(same_bits(got[i], baseline[i])) << name << columns << " " << i;
    };
#if defined(__x86_64__)
    if (cpu_supports(CpuIsa::kAvx2)) agree(run(softmax_kernels_avx2()), "avx2 ");
    if (cpu_supports(CpuIsa::kAvx512)) agree(run(softmax_kernels_avx512()), "avx512 ");
#endif
    agree(run(softmax_kernels()), "chosen ");
  }
}

}  // namespace
}  // namespace strata::kernels
