#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "core/cpu_isa.h"
#include "kernels/conv_kernels.h"
#include "kernels/fenced.h"
#include "kernels/isas.h"
#include "kernels/replica_like.h"
#include "kernels/scratch.h"
#include "strata/kernels/cpu_kernels.h"

namespace strata::kernels {
namespace {

struct Problem {
  int64_t images;
  ConvShape shape;
};

std::ostream& operator<<(std::ostream& out, const Problem& problem) {
  const ConvShape& s = problem.shape;
  return out << problem.images << " x " << s.in_channels << " x " << s.height << " x " << s.width
             << " -> " << s.out_channels << ", kernel " << s.kernel_height << " x "
             << s.kernel_width << ", padding " << s.pad_height << ", " << s.pad_width;
}

/// Tensors of a problem and what comes out, in double precision.
struct Case {
  explicit Case(const Problem& problem) {
    const ConvShape& s = problem.shape;
    x = torch::randn({problem.images, s.in_channels, s.height, s.width});
    w = torch::randn({s.out_channels, s.in_channels, s.kernel_height, s.kernel_width});
    bias = torch::randn({s.out_channels});
    const std::vector<int64_t> padding = {s.pad_height, s.pad_width};
    const at::Tensor xd = x.to(at::kDouble).requires_grad_();
    const at::Tensor wd = w.to(at::kDouble).requires_grad_();
    const at::Tensor bd = bias.to(at::kDouble).requires_grad_();
    const at::Tensor yd = at::conv2d(xd, wd, bd, 1, padding);
    y = yd.detach();
    dy = torch::randn(y.sizes());
    const auto gradients = torch::autograd::grad({yd}, {xd, wd, bd}, {dy.to(at::kDouble)});
    dx = gradients[0];
    dw = gradients[1];
    dbias = gradients[2];
  }
  at::Tensor x, w, bias, y, dy, dx, dw, dbias;
};

/// One of the two ways of computing, in one instruction set.
struct Kernels {
  CpuIsa isa;
  bool winograd;

  const ConvImagesKernel& images() const {
    const ConvKernels all = conv_kernels(isa);
    return winograd ? all.winograd_images : all.images;
  }
  const ConvWeightsKernel& weights() const {
    const ConvKernels all = conv_kernels(isa);
    return winograd ? all.winograd_weights : all.weights;
  }
  bool takes(const ConvShape& shape) const {
    return !winograd || (shape.kernel_height == 3 && shape.kernel_width == 3);
  }
};

std::vector<Kernels> all_kernels() {
  std::vector<Kernels> all;
  for (const CpuIsa isa : supported_isas()) {
    all.push_back({isa, false});
    all.push_back({isa, true});
  }
  return all;
}

at::Tensor forward(const Kernels& kernels, const Problem& problem, const ConvWeights& weights,
                   const float* x, const float* bias) {
  const ConvShape& s = problem.shape;
  const Scratch packed(kernels.images().packed_floats(s));
  const Scratch scratch(kernels.images().scratch_floats(s));
  const std::vector<int64_t> sizes = {problem.images, s.out_channels, s.out_height(),
                                      s.out_width()};
  const Fenced y(c10::multiply_integers(sizes));
  kernels.images().pack(s, weights, packed.data());
  kernels.images().run(s, problem.images, x, packed.data(), bias, y.data(), scratch.data());
  return y.tensor(sizes);
}

at::Tensor forward(const Kernels& kernels, const Problem& problem, const Case& given,
                   bool with_bias = true) {
  const Fenced x(given.x);
  const Fenced w(given.w);
  return forward(kernels, problem, {w.data(), problem.shape.depth(), problem.shape.taps(), false},
                 x.data(), with_bias ? given.bias.const_data_ptr<float>() : nullptr);
}

at::Tensor backward_data(const Kernels& kernels, const Problem& problem, const Case& given) {
  const Fenced dy(given.dy);
  const Fenced w(given.w);
  return forward(kernels, {problem.images, problem.shape.backward()},
                 {w.data(), problem.shape.taps(), problem.shape.depth(), true}, dy.data(), nullptr);
}

/// {dw, dbias}, computed in parts of at most `channels` input channels.
std::vector<at::Tensor> backward_weights(const Kernels& kernels, const Problem& problem,
                                         const Case& given, int64_t channels) {
  const ConvShape& s = problem.shape;
  const Fenced x(given.x);
  const Fenced dy(given.dy);
  const Fenced dw(given.w.numel());
  const Fenced dbias(s.out_channels);
  for (int64_t out = 0; out < s.out_channels; out += kConvPanel) {
    for (int64_t in = 0; in < s.in_channels; in += channels) {
      const ConvPart part{out, in, std::min(s.in_channels, in + channels)};
      const Scratch scratch(kernels.weights().scratch_floats(s, part));
      kernels.weights().run(s, part, problem.images, x.data(), dy.data(), dw.data(), dbias.data(),
                            scratch.data());
    }
  }
  return {dw.tensor(given.w.sizes()), dbias.tensor({s.out_channels})};
}

class ConvKernelTest : public testing::TestWithParam<Kernels> {
 protected:
  void SetUp() override { torch::manual_seed(21); }
  static const Kernels& kernels() { return GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(Kernels, ConvKernelTest, testing::ValuesIn(all_kernels()),
                         [](const auto& info) {
                           return name_of(info.param.isa) +
                                  (info.param.winograd ? "Winograd" : "Direct");
                         });

const std::vector<Problem>& problems() {
  static const std::vector<Problem> all = {
      {1, {1, 1, 1, 1, 1, 1, 0, 0}},      {2, {3, 5, 7, 5, 1, 1, 0, 0}},
      {1, {1, 3, 3, 1, 3, 3, 0, 0}},      {1, {1, 1, 1, 2, 3, 3, 1, 1}},
      {3, {2, 4, 4, 7, 3, 3, 0, 0}},      {3, {5, 9, 11, 13, 3, 3, 1, 1}},
      {2, {7, 16, 16, 6, 3, 3, 2, 2}},    {2, {4, 13, 6, 17, 5, 5, 2, 2}},
      {2, {4, 6, 13, 3, 5, 5, 4, 4}},     {1, {2, 8, 9, 11, 2, 4, 1, 3}},
      {2, {3, 9, 8, 10, 4, 2, 0, 1}},     {2, {3, 12, 10, 33, 1, 5, 0, 2}},
      {2, {3, 10, 12, 16, 5, 1, 2, 0}},   {4, {1, 28, 28, 32, 3, 3, 0, 0}},
      {3, {32, 26, 26, 64, 3, 3, 0, 0}},  {2, {20, 14, 14, 70, 3, 3, 1, 1}},
      {1, {70, 7, 7, 40, 3, 3, 1, 1}},    {1, {33, 17, 40, 18, 3, 3, 1, 0}},
      {2, {16, 3, 70, 16, 3, 3, 0, 1}},   {5, {17, 5, 3, 19, 3, 3, 1, 1}},
      {1, {40, 20, 12, 130, 1, 1, 0, 0}}, {1, {6, 64, 32, 5, 3, 3, 1, 1}}};
  return all;
}

TEST_P(ConvKernelTest, AgreesWithDoubleForAllSizes) {
  for (const Problem& problem : problems()) {
    if (!kernels().takes(problem.shape)) continue;
    const Case given(problem);
    EXPECT_LT(largest_error(forward(kernels(), problem, given), given.y), 3e-6) << problem;
    const at::Tensor plain = given.y - given.bias.to(at::kDouble).view({1, -1, 1, 1});
    EXPECT_LT(largest_error(forward(kernels(), problem, given, false), plain), 3e-6) << problem;
    EXPECT_LT(largest_error(backward_data(kernels(), problem, given), given.dx), 3e-6) << problem;
    const auto weights = backward_weights(kernels(), problem, given, 1000);
    EXPECT_LT(largest_error(weights[0], given.dw), 3e-6) << problem;
    EXPECT_LT(largest_error(weights[1], given.dbias), 3e-6) << problem;
  }
}

TEST_P(ConvKernelTest, AnImagesBitsDoNotDependOnTheOthers) {
  for (const Problem& problem : problems()) {
    if (!kernels().takes(problem.shape) || problem.images == 1) continue;
    Case given(problem);
    const at::Tensor together = forward(kernels(), problem, given);
    given.x = given.x.narrow(0, problem.images - 1, 1).contiguous();
    const at::Tensor alone = forward(kernels(), {1, problem.shape}, given);
    EXPECT_TRUE(same_bits(together.narrow(0, problem.images - 1, 1), alone)) << problem;
  }
}

TEST_P(ConvKernelTest, AnyDivisionOfTheWeightsGradientGivesTheSameBits) {
  for (const Problem& problem : problems()) {
    if (!kernels().takes(problem.shape)) continue;
    const Case given(problem);
    const auto whole = backward_weights(kernels(), problem, given, 1000);
    for (const int64_t channels : {1, 3, 16}) {
      const auto parts = backward_weights(kernels(), problem, given, channels);
      EXPECT_TRUE(same_bits(parts[0], whole[0])) << problem << " by " << channels;
      EXPECT_TRUE(same_bits(parts[1], whole[1])) << problem << " by " << channels;
    }
  }
}

TEST(ConvIsaTest, InstructionSetsGiveTheSameBits) {
  torch::manual_seed(29);
  for (const bool winograd : {false, true}) {
    const Kernels plain{CpuIsa::kBaseline, winograd};
    for (const Problem& problem : problems()) {
      if (!plain.takes(problem.shape)) continue;
      const Case given(problem);
      const at::Tensor y = forward(plain, problem, given);
      const at::Tensor dx = backward_data(plain, problem, given);
      const auto weights = backward_weights(plain, problem, given, 1000);
      for (const CpuIsa isa : supported_isas()) {
        const Kernels other{isa, winograd};
        SCOPED_TRACE(testing::Message() << problem << ", " << name_of(isa));
        EXPECT_TRUE(same_bits(forward(other, problem, given), y));
        EXPECT_TRUE(same_bits(backward_data(other, problem, given), dx));
        const auto others = backward_weights(other, problem, given, 1000);
        EXPECT_TRUE(same_bits(others[0], weights[0]));
        EXPECT_TRUE(same_bits(others[1], weights[1]));
      }
    }
  }
}

/// {y, dx, dw, dbias} through autograd.
std::vector<at::Tensor> results(const Case& given, at::IntArrayRef padding) {
  const at::Tensor x = given.x.clone().requires_grad_();
  const at::Tensor w = given.w.clone().requires_grad_();
  const at::Tensor bias = given.bias.clone().requires_grad_();
  const at::Tensor y = at::conv2d(x, w, bias, 1, padding);
  y.backward(given.dy);
  return {y.detach(), x.grad(), w.grad(), bias.grad()};
}

const std::vector<Problem>& layer_problems() {
  static const std::vector<Problem> all = {
      {4, {1, 28, 28, 32, 3, 3, 0, 0}},  {2, {32, 26, 26, 64, 3, 3, 0, 0}},
      {2, {3, 16, 17, 10, 5, 5, 2, 2}},  {1, {16, 14, 14, 16, 3, 3, 1, 1}},
      {3, {12, 15, 13, 20, 1, 1, 0, 0}}, {2, {5, 20, 20, 70, 3, 2, 1, 0}},
      {2, {140, 13, 13, 66, 3, 3, 1, 1}}};
  return all;
}

TEST(ConvolutionTest, LayersAgreeWithDouble) {
  torch::manual_seed(22);
  for (const Problem& problem : layer_problems()) {
    const Case given(problem);
    const ReplicaLike replica;
    const auto got = results(given, {problem.shape.pad_height, problem.shape.pad_width});
    const at::Tensor want[] = {given.y, given.dx, given.dw, given.dbias};
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_LT(largest_error(got[i], want[i]), 3e-6) << problem << ", result " << i;
      EXPECT_TRUE(got[i].is_contiguous());
    }
  }
}

TEST(ConvolutionTest, SameBitsOnIntraOpThreadsAndAgain) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer does not see how OpenMP's threads wait";
#endif
  if (describe_cpu_kernels().find("convolution: strata") == std::string::npos) {
    GTEST_SKIP() << "the engine's convolutions promise less";
  }
  torch::manual_seed(23);
  const int before = at::get_num_threads();
  for (const Problem& problem : layer_problems()) {
    const Case given(problem);
    const std::vector<int64_t> padding = {problem.shape.pad_height, problem.shape.pad_width};
    const ReplicaLike replica;
    at::set_num_threads(1);
    const auto one = results(given, padding);
    const auto again = results(given, padding);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(same_bits(one[i], again[i])) << problem << ", result " << i;
    }
    for (int threads = 2; threads <= 7; ++threads) {
      at::set_num_threads(threads);
      const auto more = results(given, padding);
      for (size_t i = 0; i < 4; ++i) {
        EXPECT_TRUE(same_bits(one[i], more[i]))
            << problem << ", result " << i << " on " << threads << " threads";
      }
    }
    at::set_num_threads(before);
  }
}

TEST(ConvolutionTest, LayersUseTheKernels) {
  if (describe_cpu_kernels().find("convolution: strata") == std::string::npos) {
    GTEST_SKIP() << "not on this processor";
  }
  torch::manual_seed(24);
  const Problem direct{2, {1, 28, 28, 32, 3, 3, 0, 0}};
  const Problem winograd{2, {32, 26, 26, 64, 3, 3, 0, 0}};
  for (const Problem& problem : {direct, winograd}) {
    const Kernels kernels{best_cpu_isa(), problem.shape.in_channels == 32};
    const Case given(problem);
    const ReplicaLike replica;
    const auto got = results(given, {0, 0});
    const auto weights = backward_weights(kernels, problem, given, 1000);
    EXPECT_TRUE(same_bits(got[0], forward(kernels, problem, given))) << problem;
    EXPECT_TRUE(same_bits(got[2], weights[0])) << problem;
    EXPECT_TRUE(same_bits(got[3], weights[1])) << problem;
  }
}

// Everything else is libtorch's.
TEST(ConvolutionTest, OtherConvolutionsEqualTheEnginesBitForBit) {
  torch::manual_seed(25);
  const at::Tensor x = torch::randn({2, 16, 20, 20});
  const at::Tensor w = torch::randn({16, 16, 3, 3});
  const at::Tensor grouped = torch::randn({16, 8, 3, 3});
  const at::Tensor line = torch::randn({2, 16, 50});
  const at::Tensor w1 = torch::randn({16, 16, 3});
  const at::Tensor volume = torch::randn({1, 4, 14, 14, 14});
  const at::Tensor w3 = torch::randn({8, 4, 3, 3, 3});
  const std::vector<int64_t> none = {0, 0};
  const std::vector<std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>> calls = {
      [](const auto& a, const auto& b) { return at::conv2d(a, b, {}, 2); },
      [&](const auto& a, const auto& b) { return at::conv2d(a, b, {}, 1, none, 2); },
      [](const auto& a, const auto& b) { return at::conv2d(a, b, {}, 1, 3); },
      [](const auto& a, const auto& b) { return at::conv_transpose2d(a, b); },
      [](const auto& a, const auto& b) {
        return at::conv2d(a.contiguous(at::MemoryFormat::ChannelsLast), b);
      },
      [&](const auto& a, const auto&) { return at::conv2d(a, grouped, {}, 1, none, 1, 2); },
      [](const auto& a, const auto& b) { return at::conv2d(a.to(at::kDouble), b.to(at::kDouble)); },
      [](const auto& a, const auto& b) { return at::conv2d(a.narrow(2, 0, 3).contiguous(), b); },
      [&](const auto&, const auto&) { return at::conv1d(line, w1); },
      [&](const auto&, const auto&) { return at::conv3d(volume, w3); },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto both = [&] {
      const at::Tensor a = x.clone().requires_grad_();
      const at::Tensor b = w.clone().requires_grad_();
      const at::Tensor y = calls[i](a, b);
      if (y.requires_grad()) y.square().sum().backward();
      return std::vector<at::Tensor>{y.detach(), a.grad(), b.grad()};
    };
    const auto want = both();
    const ReplicaLike replica;
    const auto got = both();
    for (size_t j = 0; j < want.size(); ++j) {
      ASSERT_EQ(got[j].defined(), want[j].defined()) << i;
      if (!want[j].defined()) continue;
      EXPECT_TRUE(same_bits(got[j], want[j])) << i << ", result " << j;
      EXPECT_EQ(got[j].strides(), want[j].strides()) << i << ", result " << j;
    }
  }
}

TEST(ConvolutionTest, UnusualCallsAgree) {
  torch::manual_seed(26);
  const at::Tensor w = torch::randn({6, 16, 3, 3});
  const at::Tensor bias = torch::randn({6});
  const at::Tensor image = torch::randn({16, 20, 20});
  const at::Tensor strided = torch::randn({2, 16, 20, 40}).slice(3, 0, 40, 2);
  const at::Tensor want = at::conv2d(image, w, bias, 1, 1);
  const at::Tensor want_strided = at::conv2d(strided, w, bias);
  const ReplicaLike replica;
  EXPECT_LT(largest_error(at::conv2d(image, w, bias, 1, 1), want), 3e-6);
  EXPECT_LT(largest_error(at::conv2d(image, w, bias, 1, "same"), want), 3e-6);
  EXPECT_LT(largest_error(at::conv2d(strided, w, bias), want_strided), 3e-6);
  const at::Tensor none = torch::randn({0, 16, 20, 20}).requires_grad_();
  const at::Tensor y = at::conv2d(none, w.requires_grad_(), bias);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({0, 6, 18, 18}));
  y.sum().backward();
  EXPECT_EQ(none.grad().sizes(), none.sizes());
  EXPECT_EQ(w.grad().abs().max().item<float>(), 0);
  EXPECT_THROW(at::conv2d(torch::randn({2, 15, 20, 20}), w.detach()), c10::Error);
  EXPECT_THROW(at::conv2d(torch::randn({2, 16, 20, 20}), w.detach(), torch::randn({7})),
               c10::Error);
}

// Which gradients are asked for must not matter, and sum()'s gradient is an expanded scalar.
TEST(ConvolutionTest, EachGradientAlone) {
  torch::manual_seed(27);
  const Problem problem{2, {16, 14, 14, 18, 3, 3, 1, 1}};
  Case given(problem);
  given.dy = torch::ones({}).expand(given.y.sizes());
  const ReplicaLike replica;
  const auto all = results(given, {1, 1});
  for (size_t i = 0; i < 3; ++i) {
    at::Tensor inputs[] = {given.x.clone(), given.w.clone(), given.bias.clone()};
    inputs[i].requires_grad_();
    at::conv2d(inputs[0], inputs[1], inputs[2], 1, 1).sum().backward();
    EXPECT_TRUE(same_bits(inputs[i].grad(), all[i + 1])) << i;
  }
}

TEST(ConvolutionTest, SecondGradients) {
  torch::manual_seed(28);
  const at::Tensor x = torch::randn({2, 16, 13, 13}, at::kDouble);
  const at::Tensor w = torch::randn({18, 16, 3, 3}, at::kDouble);
  const auto second = [&](at::ScalarType type) {
    const at::Tensor input = x.to(type).clone().requires_grad_();
    const at::Tensor weight = w.to(type).clone().requires_grad_();
    const at::Tensor loss = at::conv2d(input, weight, {}, 1, 1).mul(0.1).tanh().sum();
    const auto first = torch::autograd::grad({loss}, {input, weight}, {}, true, true);
    (first[0].square().sum() + first[1].square().sum()).backward();
    return std::vector<at::Tensor>{first[0].detach(), first[1].detach(), input.grad(),
                                   weight.grad()};
  };
  const auto want = second(at::kDouble);
  const ReplicaLike replica;
  const auto got = second(at::kFloat);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_LT(largest_error(got[i], want[i]), 1e-5) << i;
}

}  // namespace
}  // namespace strata::kernels
