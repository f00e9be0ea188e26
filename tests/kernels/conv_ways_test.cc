// Convolutions with kernels of 1 x 1, and of stride 2 over images, as replica functions run them.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/conv_by_phases.h"
#include "kernels/kernel_choice.h"
#include "kernels/replica_like.h"
#include "strata/kernels/cpu_kernels.h"

namespace strata::kernels {
namespace {

struct Convolution {
  int64_t images, in_channels, height, width, out_channels;
  std::vector<int64_t> kernel, stride, padding;
};

std::ostream& operator<<(std::ostream& out, const Convolution& p) {
  return out << p.images << " x " << p.in_channels << " x " << p.height << " x " << p.width
             << " -> " << p.out_channels << ", kernel " << at::IntArrayRef(p.kernel) << ", stride "
             << at::IntArrayRef(p.stride) << ", padding " << at::IntArrayRef(p.padding);
}

const std::vector<Convolution>& convolutions() {
  static const std::vector<Convolution> all = {
      {2, 16, 14, 15, 24, {1, 1}, {1, 1}, {0, 0}},   // planes in place
      {5, 70, 7, 7, 33, {1, 1}, {1, 1}, {0, 0}},     // several images' side by side, more out
      {19, 20, 7, 7, 130, {1, 1}, {1, 1}, {0, 0}},   // two groups, the last one smaller
      {3, 200, 28, 28, 16, {1, 1}, {2, 2}, {0, 0}},  // every second pixel
      {3, 9, 41, 37, 20, {1, 1}, {2, 2}, {0, 0}},   {2, 8, 33, 20, 40, {1, 1}, {1, 2}, {0, 0}},
      {2, 12, 31, 32, 9, {1, 1}, {3, 3}, {0, 0}},   {20, 8, 15, 13, 8, {1, 1}, {2, 1}, {0, 0}},
      {2, 3, 64, 64, 16, {7, 7}, {2, 2}, {3, 3}},  // an image's first layer
      {2, 3, 37, 42, 8, {7, 7}, {2, 2}, {0, 0}},    {3, 1, 33, 40, 12, {3, 3}, {2, 2}, {1, 1}},
      {2, 4, 40, 39, 20, {5, 4}, {2, 2}, {2, 1}},   {1, 2, 35, 36, 18, {6, 3}, {2, 2}, {5, 2}}};
  return all;
}

struct Operands {
  explicit Operands(const Convolution& p)
      : x(torch::randn({p.images, p.in_channels, p.height, p.width})),
        w(torch::randn({p.out_channels, p.in_channels, p.kernel[0], p.kernel[1]})),
        bias(torch::randn({p.out_channels})) {}
  at::Tensor x, w, bias;
};

/// {y, dx, dw, dbias} through autograd, for this gradient of y.
std::vector<at::Tensor> results(const Convolution& p, const Operands& given, at::ScalarType type,
                                const at::Tensor& dy) {
  const auto leaf = [&](const at::Tensor& t) {
    return t.detach().to(type).clone().requires_grad_();
  };
  const at::Tensor x = leaf(given.x), w = leaf(given.w), bias = leaf(given.bias);
  const at::Tensor y = at::conv2d(x, w, bias, p.stride, p.padding);
  y.backward(dy.to(type));
  return {y.detach(), x.grad(), w.grad(), bias.grad()};
}

/// Noise of the size of y.
at::Tensor output_gradient(const Convolution& p, const Operands& given) {
  const at::Tensor y = at::conv2d(given.x, given.w, given.bias, p.stride, p.padding);
  return torch::arange(y.numel()).mul(7919).remainder(101).sub(50).div(50).view(y.sizes());
}

std::vector<at::Tensor> results(const Convolution& p, const Operands& given, at::ScalarType type) {
  return results(p, given, type, output_gradient(p, given));
}

class ConvWaysTest : public testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(31); }
};

TEST_F(ConvWaysTest, AgreeWithDouble) {
  for (const Convolution& problem : convolutions()) {
    const Operands given(problem);
    const auto want = results(problem, given, at::kDouble);
    const ReplicaLike replica;
    const auto got = results(problem, given, at::kFloat);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_LT(largest_error(got[i], want[i]), 1e-5) << problem << ", result " << i;
      EXPECT_TRUE(got[i].is_contiguous());
    }
  }
}

TEST_F(ConvWaysTest, AnImagesBitsDoNotDependOnTheOthersAndNoneOnThreads) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer does not see how OpenMP's threads wait";
#endif
  if (!runs_own_of("convolution")) GTEST_SKIP() << "the engine's convolutions promise less";
  const int before = at::get_num_threads();
  for (const Convolution& problem : convolutions()) {
    const Operands given(problem);
    const ReplicaLike replica;
    at::set_num_threads(1);
    const auto one = results(problem, given, at::kFloat);
    for (int threads = 2; threads <= 7; ++threads) {
      at::set_num_threads(threads);
      const auto more = results(problem, given, at::kFloat);
      for (size_t i = 0; i < one.size(); ++i) {
        EXPECT_TRUE(same_bits(one[i], more[i]))
            << problem << ", result " << i << " on " << threads << " threads";
      }
    }
    at::set_num_threads(before);
    const at::Tensor last = given.x.narrow(0, problem.images - 1, 1).contiguous();
    const at::Tensor alone = at::conv2d(last, given.w, given.bias, problem.stride, problem.padding);
    if (alone.numel() / problem.out_channels < 128) continue;  // the engine's
    EXPECT_TRUE(same_bits(alone, one[0].narrow(0, problem.images - 1, 1))) << problem;
  }
}

/// `t` with one element of its second image replaced, near the corner, the edge or the middle.
at::Tensor with_one(const at::Tensor& t, int place, float value) {
  at::Tensor spoiled = t.clone();
  const int64_t row = place == 0 ? 0 : place == 1 ? t.size(2) - 1 : t.size(2) / 2;
  const int64_t column = place == 0 ? 1 : place == 1 ? t.size(3) / 2 : t.size(3) / 3;
  spoiled[t.size(0) - 1][t.size(1) - 1][row][column] = value;
  return spoiled;
}

TEST_F(ConvWaysTest, NanAndInfinityReachOnlyWhatReadsThem) {
  if (!runs_own_of("convolution")) GTEST_SKIP() << "the engine's convolutions promise less";
  std::vector<Convolution> all = convolutions();
  all.push_back({2, 3, 20, 21, 8, {3, 3}, {1, 1}, {1, 1}});  // directly
  all.push_back({2, 5, 20, 21, 70, {5, 3}, {1, 1}, {0, 2}});
  all.push_back({2, 16, 12, 13, 16, {3, 3}, {1, 1}, {1, 1}});  // by Winograd's algorithm
  all.push_back({3, 20, 15, 17, 70, {3, 3}, {1, 1}, {0, 0}});
  const auto check = [](const Convolution& problem, const Operands& given, const at::Tensor& dy) {
    // libtorch's in float: in double it multiplies by the zeros of the padding, too.
    const auto want = results(problem, given, at::kFloat, dy);
    const ReplicaLike replica;
    const auto got = results(problem, given, at::kFloat, dy);
    for (size_t i = 0; i < got.size(); ++i) {
      const at::Tensor finite = want[i].isfinite();
      EXPECT_TRUE(at::equal(kinds(got[i]), kinds(want[i])))
          << problem << ", result " << i << ": " << (~got[i].isfinite()).sum().item<int64_t>()
          << " elements are not finite; expected " << (~finite).sum().item<int64_t>();
      EXPECT_LT(largest_error(got[i].masked_select(finite), want[i].masked_select(finite)), 1e-5)
          << problem << ", result " << i;
    }
  };
  for (const Convolution& problem : all) {
    const Operands given(problem);
    const at::Tensor dy = output_gradient(problem, given);
    for (const float value :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      for (int place = 0; place < 3; ++place) {
        Operands spoiled = given;
        spoiled.x = with_one(given.x, place, value);
        SCOPED_TRACE(testing::Message() << value << " at place " << place);
        check(problem, spoiled, dy);
        check(problem, given, with_one(dy, place, value));
      }
    }
  }
}

TEST_F(ConvWaysTest, PhasesGoThereAndBack) {
  const PhasedShape shape{2, 3, 11, 12, 4, 5, 4, 2, 1};
  const ConvShape phased = shape.phases();
  const at::Tensor x = torch::rand({2, 3, 11, 12}) + 1;
  const at::Tensor phases = torch::empty({2, 12, phased.height, phased.width});
  const at::Tensor back = torch::empty_like(x);
  split_phases(shape, x.const_data_ptr<float>(), phases.mutable_data_ptr<float>());
  join_phases(shape, phases.const_data_ptr<float>(), back.mutable_data_ptr<float>());
  // Rows and columns that no window reaches come back as zeros.
  const int64_t rows = 2 * (shape.out_height() - 1) + 2 * phased.kernel_height - 2;
  const int64_t columns = 2 * (shape.out_width() - 1) + 2 * phased.kernel_width - 1;
  const auto reached = [&](const at::Tensor& t) {
    return t.slice(2, 0, rows).slice(3, 0, columns).contiguous();
  };
  EXPECT_TRUE(same_bits(reached(back), reached(x)));

  const at::Tensor w = torch::rand({4, 3, 5, 4});
  const at::Tensor split = torch::empty({4, 12, phased.kernel_height, phased.kernel_width});
  const at::Tensor joined = torch::empty_like(w);
  split_kernels(shape, w.const_data_ptr<float>(), split.mutable_data_ptr<float>());
  join_kernels(shape, split.const_data_ptr<float>(), joined.mutable_data_ptr<float>());
  EXPECT_TRUE(same_bits(joined, w));
  EXPECT_NEAR(split.sum().item<double>(), w.sum().item<double>(), 1e-4);
}

}  // namespace
}  // namespace strata::kernels
