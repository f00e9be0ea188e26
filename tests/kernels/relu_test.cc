// The relu that replica functions run instead of libtorch's.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/cpu_isa.h"
#include "kernels/layer_kernels.h"
#include "kernels/replica_like.h"

namespace strata::kernels {
namespace {

at::Tensor leaf(const at::Tensor& value) { return value.detach().clone().set_requires_grad(true); }

/// Every value that compares in a way of its own among normal ones.
at::Tensor awkward_with_denormals(at::IntArrayRef sizes) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  at::Tensor x = torch::randn(sizes);
  const std::vector<float> special = {0.0F, -0.0F, infinity, -infinity, nan, 1e-40F, -1e-40F};
  at::Tensor flat = x.view(-1);
  for (size_t i = 0; i < special.size() && static_cast<int64_t>(i) < x.numel(); ++i)
    flat[static_cast<int64_t>(i)] = special[i];
  return x;
}

class ReluTest : public testing::Test {
 protected:
  ReluTest() { torch::manual_seed(3); }

  template <typename Run>
  static auto outside(const Run& run) {
    const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::CustomRNGKeyId);
    return run();
  }

  ReplicaLike replica_;
};

// Sizes around the vectors' width, and of several parts.
TEST_F(ReluTest, HasTheBitsOfLibtorchs) {
  for (const int64_t size : {0, 1, 15, 16, 17, 100, 33000, 100000}) {
    const at::Tensor input = awkward_with_denormals({size});
    const at::Tensor gradient = torch::randn({size});
    const auto run = [&] {
      const at::Tensor x = leaf(input);
      const at::Tensor y = torch::relu(x);
      const at::Tensor z = leaf(input);
      at::Tensor in_place = z * 1;
      torch::relu_(in_place);
      y.backward(gradient);
      in_place.backward(gradient);
      return std::vector<at::Tensor>{y.detach(), x.grad(), in_place.detach(), z.grad()};
    };
    const auto own = run();
    const auto want = outside(run);
    for (size_t i = 0; i < own.size(); ++i) EXPECT_TRUE(same_bits(own[i], want[i])) << size;
  }
}

TEST_F(ReluTest, KeepsStrides) {
  const at::Tensor planes = awkward_with_denormals({3, 8, 5, 6});
  for (const at::Tensor& input :
       {planes.movedim(1, -1), planes.transpose(2, 3), planes.slice(3, 0, 6, 2),
        planes.select(1, 2), planes.contiguous(at::MemoryFormat::ChannelsLast)}) {
    const auto run = [&] {
      const at::Tensor x = input.detach().requires_grad_();
      const at::Tensor y = torch::relu(x);
      y.square().sum().backward();
      return std::vector<at::Tensor>{y.detach(), x.grad()};
    };
    const auto own = run();
    const auto want = outside(run);
    for (size_t i = 0; i < own.size(); ++i) {
      EXPECT_TRUE(same_bits(own[i], want[i])) << input.strides();
      EXPECT_EQ(own[i].strides(), want[i].strides());
    }
  }
}

// Gives its gradient as a tensor of its own, and says where that lies.
struct Fresh : torch::autograd::Function<Fresh> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            int64_t where) {
    context->saved_data["where"] = where;
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor result = gradients[0] * 2;
    *reinterpret_cast<const void**>(context->saved_data["where"].toInt()) = result.data_ptr();
    return {result, {}};
  }
};

// Fresh, or seen through views.
TEST_F(ReluTest, BackwardWritesIntoAGradientThatNobodyElseHolds) {
  for (const bool views : {false, true}) {
    const at::Tensor x = leaf(torch::randn({5, 7, 3}));
    const void* gradient = nullptr;
    at::Tensor y = torch::relu(x);
    if (views) y = y.movedim(1, -1).movedim(-1, 1);
    Fresh::apply(y, reinterpret_cast<int64_t>(&gradient)).backward(torch::ones({5, 7, 3}));
    EXPECT_EQ(x.grad().data_ptr(), gradient);
    EXPECT_TRUE(same_bits(x.grad(), x.detach().gt(0).to(at::kFloat) * 2));
  }
}

TEST_F(ReluTest, BackwardLeavesOthersGradientsAlone) {
  const at::Tensor input = torch::randn({5, 7});
  const at::Tensor ones = torch::ones({5, 7});
  const at::Tensor want = input.gt(0).to(at::kFloat);
  // The caller's, and a view of it.
  for (const bool flat : {false, true}) {
    const at::Tensor x = leaf(input);
    const at::Tensor y = torch::relu(x);
    const at::Tensor given = flat ? ones.view(-1) : ones;
    (flat ? y.view(-1) : y).backward(given);
    EXPECT_TRUE(same_bits(ones, torch::ones({5, 7})));
    EXPECT_TRUE(same_bits(x.grad(), want));
  }
  // Flat of its own: what reaches relu is a view.
  const at::Tensor flat_ones = torch::ones({35});
  const at::Tensor viewed = leaf(input);
  torch::relu(viewed).view(-1).backward(flat_ones);
  EXPECT_TRUE(same_bits(flat_ones, torch::ones({35})));
  EXPECT_TRUE(same_bits(viewed.grad(), want));
  // A hook's, a retained one, and one that goes two ways.
  const at::Tensor x = leaf(input);
  const at::Tensor y = torch::relu(x);
  const at::Tensor z = y + y;
  at::Tensor seen;
  z.retain_grad();
  y.retain_grad();
  y.register_hook([&](const at::Tensor& gradient) { seen = gradient; });
  (z + torch::relu(z)).sum().backward();
  const at::Tensor twice = torch::ones({5, 7}) + want;
  EXPECT_TRUE(same_bits(z.grad(), twice));
  EXPECT_TRUE(same_bits(seen, 2 * twice));
  EXPECT_TRUE(same_bits(y.grad(), 2 * twice));
  EXPECT_TRUE(same_bits(x.grad(), 2 * twice * want));
}

TEST_F(ReluTest, BackwardTwiceAndOfItself) {
  const at::Tensor input = torch::randn({4, 6});
  const auto second = [&](at::ScalarType type) {
    const at::Tensor x = input.to(type).clone().requires_grad_();
    const at::Tensor loss = (torch::relu(x * x - 0.5).square() * x).sum();
    const at::Tensor first = torch::autograd::grad({loss}, {x}, {}, true, true)[0];
    first.square().sum().backward();
    return std::vector<at::Tensor>{first.detach(), x.grad()};
  };
  const auto got = second(at::kFloat);
  const auto want = second(at::kDouble);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(largest_error(got[i], want[i]), 1e-5);

  const at::Tensor x = leaf(input);
  const at::Tensor y = torch::relu(x).sum();
  y.backward({}, /*retain_graph=*/true);
  y.backward();
  EXPECT_TRUE(same_bits(x.grad(), 2 * input.gt(0).to(at::kFloat)));
  EXPECT_THROW(y.backward(), c10::Error);
}

TEST_F(ReluTest, ChangesInPlaceAreCountedAndRefused) {
  at::Tensor x = leaf(torch::randn({3, 4}));
  at::Tensor y = torch::relu(x);
  const auto version = y._version();
  torch::relu_(y);
  EXPECT_GT(y._version(), version);
  y.add_(1);
  EXPECT_THROW(y.sum().backward(), c10::Error);  // its relu's value is gone
  EXPECT_THROW(torch::relu_(x), c10::Error);     // a leaf

  const at::Tensor whole = leaf(torch::randn({3, 4}));
  const auto of_a_part = [&] {
    at::Tensor copy = whole * 1;
    at::Tensor part = copy[1];
    torch::relu_(part);
    return torch::autograd::grad({copy.square().sum()}, {whole})[0];
  };
  EXPECT_TRUE(same_bits(of_a_part(), outside(of_a_part)));
}

TEST_F(ReluTest, OtherTypesAreLibtorchs) {
  const at::Tensor whole = torch::arange(-3, 4);
  EXPECT_TRUE(same_bits(torch::relu(whole), whole.clamp_min(0)));
  const at::Tensor x = torch::randn({5}, at::kDouble).requires_grad_();
  EXPECT_EQ(torch::relu(x).grad_fn()->name(), "ReluBackward0");
  EXPECT_EQ(torch::relu(leaf(torch::randn({5}))).grad_fn()->name(), "ReluBackward");
  const at::NoGradGuard no_grad;
  EXPECT_EQ(torch::relu(leaf(torch::randn({5}))).grad_fn(), nullptr);
}

TEST_F(ReluTest, IsTheSameInEveryInstructionSet) {
  std::vector<const LayerKernels*> kernels = {&layer_kernels_baseline()};
#if defined(__x86_64__)
  if (cpu_supports(CpuIsa::kAvx2)) kernels.push_back(&layer_kernels_avx2());
  if (cpu_supports(CpuIsa::kAvx512)) kernels.push_back(&layer_kernels_avx512());
#endif
  for (const int64_t size : {0, 1, 7, 16, 33, 130}) {
    const at::Tensor x = awkward_with_denormals({size});
    const at::Tensor gradient = torch::randn({size});
    const at::Tensor want = outside([&] { return torch::relu(x); });
    const at::Tensor want_gradient =
        outside([&] { return at::threshold_backward(gradient, x, 0.25); });
    for (const LayerKernels* kernel : kernels) {
      const at::Tensor y = x.clone();
      kernel->relu_in_place(y.mutable_data_ptr<float>(), size);
      EXPECT_TRUE(same_bits(y, want)) << size;
      const at::Tensor g = gradient.clone();
      kernel->threshold_in_place(g.mutable_data_ptr<float>(), x.const_data_ptr<float>(), 0.25F,
                                 size);
      EXPECT_TRUE(same_bits(g, want_gradient)) << size;
    }
  }
}

}  // namespace
}  // namespace strata::kernels
