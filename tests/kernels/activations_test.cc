// The smooth activations that replica functions run instead of libtorch's.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <string>
#include <vector>

#include "kernels/activation_kernels.h"
#include "kernels/fenced.h"
#include "kernels/kernel_threads.h"
#include "kernels/replica_like.h"

namespace strata::kernels {
namespace {

using Function = at::Tensor (*)(const at::Tensor&);

struct NamedActivation {
  const char* name;
  Function function;
};

const std::vector<NamedActivation> kActivations = {
    {"gelu", [](const at::Tensor& x) { return torch::gelu(x); }},
    {"gelu tanh", [](const at::Tensor& x) { return torch::gelu(x, "tanh"); }},
    {"sigmoid", [](const at::Tensor& x) { return torch::sigmoid(x); }},
    {"tanh", [](const at::Tensor& x) { return torch::tanh(x); }}};

struct ValueAndGradient {
  at::Tensor value, gradient;
};

ValueAndGradient run_activation(Function function, const at::Tensor& input,
                                const at::Tensor& gradient) {
  const at::Tensor x = input.detach().requires_grad_();
  const at::Tensor y = function(x);
  y.backward(gradient);
  return {y.detach(), x.grad()};
}

template <typename Run>
auto in_libtorch(const Run& run) {
  const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::CustomRNGKeyId);
  return run();
}

class ActivationsTest : public testing::Test {
 protected:
  ActivationsTest() { torch::manual_seed(3); }
  ReplicaLike replica_;
};

TEST_F(ActivationsTest, AreAsNearToDoubleAsLibtorchs) {
  for (const NamedActivation& activation : kActivations) {
    const char* const name = activation.name;
    const Function function = activation.function;
    for (const int64_t size : {1, 15, 17, 1000, 70001}) {
      SCOPED_TRACE(testing::Message() << name << " " << size);
      const at::Tensor x = torch::randn({size}) * 3;
      const at::Tensor dy = torch::randn({size});
      const auto own = run_activation(function, x, dy);
      const auto libtorchs = in_libtorch([&] { return run_activation(function, x, dy); });
      const auto want = run_activation(function, x.to(at::kDouble), dy.to(at::kDouble));
      EXPECT_LT(largest_error(own.value, want.value), 3e-7);
      EXPECT_LT(largest_error(own.gradient, want.gradient), 5e-7);
      if (size < 1000) continue;
      EXPECT_LE(root_mean_square_error(own.value, want.value),
                1.1 * root_mean_square_error(libtorchs.value, want.value));
      EXPECT_LE(root_mean_square_error(own.gradient, want.gradient),
                1.1 * root_mean_square_error(libtorchs.gradient, want.gradient));
    }
  }
}

TEST_F(ActivationsTest, NaNsAndInfinitiesReachWhatTheyReachInLibtorch) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity};
  for (float size = 1e-45F; size < 1e38F; size = size * 7 + 1e-45F) {
    values.push_back(size);
    values.push_back(-size);
  }
  const at::Tensor x = torch::tensor(values);
  for (const NamedActivation& activation : kActivations) {
    const char* const name = activation.name;
    const Function function = activation.function;
    SCOPED_TRACE(name);
    const at::Tensor ones = torch::ones_like(x);
    const auto own = run_activation(function, x, ones);
    const auto want = in_libtorch([&] { return run_activation(function, x, ones); });
    // oneDNN's gelu of infinity is a NaN.
    EXPECT_TRUE(own.value.isfinite().equal(want.value.isfinite()));
    EXPECT_TRUE(own.gradient.isnan().equal(want.gradient.isnan()));
    EXPECT_TRUE(own.gradient.isinf().equal(want.gradient.isinf()));
  }
}

TEST_F(ActivationsTest, StridesAreKeptAndOthersAreLibtorchs) {
  const at::Tensor planes = torch::randn({3, 8, 5, 6});
  for (const NamedActivation& activation : kActivations) {
    const char* const name = activation.name;
    const Function function = activation.function;
    for (const at::Tensor& x : {planes.movedim(1, -1), planes.slice(3, 0, 6, 2),
                                planes.to(at::kDouble), planes.to(at::kBFloat16)}) {
      const at::Tensor dy = torch::randn_like(x);
      const auto own = run_activation(function, x, dy);
      const auto want = in_libtorch([&] { return run_activation(function, x, dy); });
      EXPECT_EQ(own.value.strides(), want.value.strides()) << name;
      EXPECT_LT(largest_error(own.value, want.value), 1e-6) << name;
      EXPECT_LT(largest_error(own.gradient, want.gradient), 1e-6) << name;
    }
    EXPECT_EQ(function(torch::empty({0, 3})).numel(), 0);
  }
}

TEST_F(ActivationsTest, ThreadsDoNotChangeBits) {
  const at::Tensor x = torch::randn({100003});
  const at::Tensor dy = torch::randn({100003});
  for (const NamedActivation& activation : kActivations) {
    const char* const name = activation.name;
    const Function function = activation.function;
    ValueAndGradient one;
    for (int threads = 1; threads <= 7; ++threads) {
      set_kernel_threads(threads);
      const auto each = run_activation(function, x, dy);
      if (threads == 1) one = each;
      EXPECT_TRUE(same_bits(each.value, one.value)) << name << threads;
      EXPECT_TRUE(same_bits(each.gradient, one.gradient)) << name << threads;
    }
    set_kernel_threads(0);
  }
}

// At odd sizes, between pages that cannot be touched; in place too.
TEST_F(ActivationsTest, InstructionSetsAgreeToTheBit) {
  for (const int64_t size : {1, 7, 16, 33, 4099}) {
    at::Tensor x = torch::randn({size}) * 20;
    x[0] = std::numeric_limits<float>::infinity();
    const at::Tensor dy = torch::randn({size});
    const auto run = [&](const ActivationKernels& kernels) {
      std::vector<at::Tensor> out;
      for (auto* forward : {kernels.gelu, kernels.gelu_tanh, kernels.sigmoid, kernels.tanh}) {
        const Fenced from(x), to(size);
        forward(from.data(), size, to.data());
        out.push_back(to.tensor({size}));
        forward(from.data(), size, from.data());
        EXPECT_TRUE(same_bits(from.tensor({size}), out.back()));
      }
      for (auto* backward : {kernels.gelu_backward, kernels.gelu_tanh_backward}) {
        const Fenced from(x), gradient(dy), to(size);
        backward(gradient.data(), from.data(), size, to.data());
        out.push_back(to.tensor({size}));
        backward(gradient.data(), from.data(), size, gradient.data());
        EXPECT_TRUE(same_bits(gradient.tensor({size}), out.back()));
      }
      return out;
    };
    const auto baseline = run(activation_kernels_baseline());
    const auto agree = [&](const std::vector<at::Tensor>& got, const char* name) {
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(same_bits(got[i].nan_to_num(), baseline[i].nan_to_num())) << name << i;
        EXPECT_TRUE(got[i].isnan().equal(baseline[i].isnan())) << name << i;
      }
    };
#if defined(__x86_64__)
    if (cpu_supports(CpuIsa::kAvx2)) agree(run(activation_kernels_avx2()), "avx2 ");
    if (cpu_supports(CpuIsa::kAvx512)) agree(run(activation_kernels_avx512()), "avx512 ");
#endif
    agree(run(activation_kernels()), "chosen ");
  }
}

}  // namespace
}  // namespace strata::kernels
