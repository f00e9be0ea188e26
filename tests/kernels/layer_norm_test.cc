// Normalization of rows against libtorch's operators in double precision.
#include "kernels/layer_norm.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <vector>

#include "kernels/fenced.h"
#include "kernels/kernel_threads.h"
#include "kernels/layer_norm_kernels.h"
#include "kernels/replica_like.h"

namespace strata::kernels {
namespace {

constexpr double kRowEpsilon = 1e-3;

at::Tensor row_leaf(const at::Tensor& value) {
  return value.detach().clone().set_requires_grad(true);
}

struct RowNorm {
  at::Tensor x, beside, weight, bias;

  /// y and x + beside.
  std::vector<at::Tensor> libtorch() const {
    const at::Tensor sum = x + beside;
    return {torch::layer_norm(sum, weight.sizes(), weight, bias, kRowEpsilon), sum};
  }
  std::vector<at::Tensor> own() const {
    const auto result = layer_norm_of_sum(x, beside, weight, bias, weight.sizes(), kRowEpsilon);
    EXPECT_TRUE(result.has_value());
    return {result->y, result->sum};
  }
  at::Tensor rms() const {
    const at::Tensor square = x.square().mean(-1, /*keepdim=*/true);
    return x * (square + kRowEpsilon).rsqrt() * weight;
  }
  RowNorm as_double() const {
    const auto exact = [](const at::Tensor& each) { return row_leaf(each.to(at::kDouble)); };
    return {exact(x), exact(beside), exact(weight), exact(bias)};
  }
  std::vector<at::Tensor> gradients() const {
    return {x.grad(), beside.grad(), weight.grad(), bias.grad()};
  }
};

RowNorm make_rows(const std::vector<int64_t>& shape, size_t normalized = 1) {
  const std::vector<int64_t> last(shape.end() - static_cast<int64_t>(normalized), shape.end());
  return {row_leaf(torch::randn(shape) * 3 + 5), row_leaf(torch::randn(shape)),
          row_leaf(torch::rand(last) + 0.5), row_leaf(torch::randn(last))};
}

const std::vector<std::vector<int64_t>> kRowShapes = {{1, 1},    {3, 2},     {5, 15},  {4, 16},
                                                      {2, 17},   {7, 3, 63}, {65, 64}, {300, 33},
                                                      {2100, 5}, {3, 256},   {2, 9001}};

class LayerNormTest : public testing::Test {
 protected:
  LayerNormTest() { torch::manual_seed(5); }
  template <typename Run>
  static auto outside(const Run& run) {
    const c10::impl::ExcludeDispatchKeyGuard guard(c10::DispatchKey::CustomRNGKeyId);
    return run();
  }
  ReplicaLike replica_;
};

TEST_F(LayerNormTest, OfASumAgreesWithDouble) {
  for (const auto& shape : kRowShapes) {
    for (const int used : {0, 1, 2}) {  // both results, y, the sum
      SCOPED_TRACE(testing::Message() << at::IntArrayRef(shape) << used);
      const RowNorm layer = make_rows(shape);
      const RowNorm exact = layer.as_double();
      const auto own = layer.own();
      const auto want = exact.libtorch();
      EXPECT_LT(largest_error(own[0], want[0]), 1e-5);
      EXPECT_LT(largest_error(own[1], want[1]), 1e-6);
      const at::Tensor of_y = torch::randn(shape), of_sum = torch::randn(shape);
      const auto backward = [&](const std::vector<at::Tensor>& out) {
        const auto dtype = out[0].scalar_type();
        at::Tensor loss = torch::zeros({}, dtype);
        if (used != 2) loss = loss + (out[0] * of_y.to(dtype)).sum();
        if (used != 1) loss = loss + (out[1] * of_sum.to(dtype)).sum();
        loss.backward();
      };
      backward(own);
      backward(want);
      const auto got = layer.gradients(), reference = exact.gradients();
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].defined(), reference[i].defined()) << i;
        if (!got[i].defined()) continue;
        EXPECT_LT(largest_error(got[i], reference[i]), 2e-5) << i;
      }
    }
  }
}

TEST_F(LayerNormTest, LibtorchsOperatorIsReplacedAndNoLessAccurate) {
  for (const auto& shape : kRowShapes) {
    for (const bool affine : {true, false}) {
      SCOPED_TRACE(testing::Message() << at::IntArrayRef(shape) << affine);
      const RowNorm layer = make_rows(shape);
      const at::Tensor dy = torch::randn(shape);
      const auto run = [&](at::ScalarType dtype) {
        const at::Tensor x = row_leaf(layer.x.to(dtype)), weight = row_leaf(layer.weight.to(dtype)),
                         bias = row_leaf(layer.bias.to(dtype));
        const at::Tensor y = affine
                                 ? torch::layer_norm(x, weight.sizes(), weight, bias, kRowEpsilon)
                                 : torch::layer_norm(x, weight.sizes(), {}, {}, kRowEpsilon);
        y.backward(dy.to(dtype));
        std::vector<at::Tensor> all = {y.detach(), x.grad()};
        if (affine) all.insert(all.end(), {weight.grad(), bias.grad()});
        return all;
      };
      const auto own = run(at::kFloat);
      const auto want = run(at::kDouble);
      const auto libtorchs = outside([&] { return run(at::kFloat); });
      for (size_t i = 0; i < own.size(); ++i) {
        EXPECT_LT(largest_error(own[i], want[i]),
                  std::max(1e-6, 1.5 * largest_error(libtorchs[i], want[i])))
            << i;
      }
    }
  }
}

TEST_F(LayerNormTest, TakesSeveralDimensionsAndStrides) {
  const RowNorm layer = make_rows({3, 4, 5, 6}, 2);
  const RowNorm exact = layer.as_double();
  EXPECT_LT(largest_error(layer.own()[0], exact.libtorch()[0]), 1e-5);
  const at::Tensor x = row_leaf(torch::randn({4, 3, 5, 6})), weight = row_leaf(layer.weight);
  const auto run = [&] {
    const at::Tensor y = torch::layer_norm(x.transpose(0, 1), {5, 6}, weight, {}, kRowEpsilon);
    return torch::autograd::grad({y.pow(3).sum()}, {x, weight});
  };
  const auto own = run();
  const auto want = outside(run);
  for (size_t i = 0; i < own.size(); ++i) EXPECT_LT(largest_error(own[i], want[i]), 1e-5) << i;
}

TEST_F(LayerNormTest, RmsAgreesWithDouble) {
  for (const auto& shape : kRowShapes) {
    SCOPED_TRACE(at::IntArrayRef(shape));
    const RowNorm layer = make_rows(shape);
    const RowNorm exact = layer.as_double();
    const auto own = rms_norm(layer.x, layer.weight, kRowEpsilon);
    ASSERT_TRUE(own);
    const at::Tensor want = exact.rms();
    EXPECT_LT(largest_error(*own, want), 1e-5);
    const at::Tensor dy = torch::randn(shape);
    own->backward(dy);
    want.backward(dy.to(at::kDouble));
    EXPECT_LT(largest_error(layer.x.grad(), exact.x.grad()), 2e-5);
    EXPECT_LT(largest_error(layer.weight.grad(), exact.weight.grad()), 2e-5);
  }
}

TEST_F(LayerNormTest, CanBeDifferentiatedTwice) {
  const auto second = [](const at::Tensor& y, const at::Tensor& x) {
    const auto first = torch::autograd::grad({y.pow(3).sum()}, {x}, {}, true, true);
    return torch::autograd::grad({first[0].square().sum()}, {x})[0];
  };
  const RowNorm layer = make_rows({4, 7});
  const RowNorm exact = layer.as_double();
  const auto total = [](const std::vector<at::Tensor>& out) { return out[0] + out[1] * 2; };
  EXPECT_LT(
      largest_error(second(total(layer.own()), layer.x), second(total(exact.libtorch()), exact.x)),
      1e-4);
  EXPECT_LT(largest_error(second(*rms_norm(layer.x, layer.weight, kRowEpsilon), layer.x),
                          second(exact.rms(), exact.x)),
            1e-4);
}

/// What the dispatcher gives for each operator of ours.
std::vector<at::Tensor> call_row_operators(const RowNorm& given, bool decomposed) {
  auto& dispatcher = c10::Dispatcher::singleton();
  std::vector<at::Tensor> all;
  const auto call = [&](const char* name, std::vector<c10::IValue> stack) {
    const auto op = dispatcher.findSchemaOrThrow(name, "");
    if (decomposed) {
      op.callBoxedForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd, stack);
    } else {
      op.callBoxed(&stack);
    }
    const size_t first = all.size();
    for (const c10::IValue& each : stack) all.push_back(each.toTensor());
    return first;
  };
  const at::NoGradGuard no_grad;
  const at::Tensor x = given.x.detach(), beside = given.beside.detach(),
                   weight = given.weight.detach(), bias = given.bias.detach();
  size_t at = call("strata::layer_norm_of_sum", {x, beside, weight, bias, 1, kRowEpsilon});
  call("strata::layer_norm_of_sum_backward",
       {beside, x, all[at + 1], weight, all[at + 2], all[at + 3], 1});
  call("strata::layer_norm_of_sum_backward",
       {beside, c10::IValue(), all[at + 1], c10::IValue(), all[at + 2], all[at + 3], 1});
  at = call("strata::rms_norm", {x, weight, kRowEpsilon});
  call("strata::rms_norm_backward", {beside, x, weight, all[at + 1]});
  return all;
}

TEST_F(LayerNormTest, DecompositionsGiveTheSame) {
  const RowNorm layer = make_rows({6, 5, 31});
  const auto own = call_row_operators(layer, false);
  const auto want = outside([&] { return call_row_operators(layer, true); });
  const auto plain = outside([&] { return call_row_operators(layer, false); });
  const RowNorm shapes = {layer.x.to(at::kMeta), layer.beside.to(at::kMeta),
                          layer.weight.to(at::kMeta), layer.bias.to(at::kMeta)};
  const auto meta = call_row_operators(shapes, false);
  ASSERT_EQ(own.size(), want.size());
  ASSERT_EQ(own.size(), meta.size());
  for (size_t i = 0; i < own.size(); ++i) {
    EXPECT_TRUE(same_bits(own[i], plain[i])) << i;  // in replica functions no decomposition runs
    EXPECT_LT(largest_error(own[i], want[i]), 1e-5) << i;
    EXPECT_EQ(own[i].sizes(), meta[i].sizes()) << i;
    EXPECT_TRUE(meta[i].is_meta()) << i;
  }
}

TEST_F(LayerNormTest, ThreadsDoNotChangeBits) {
  const RowNorm layer = make_rows({999, 130});
  const at::Tensor dy = torch::randn({999, 130});
  std::vector<at::Tensor> one;
  for (int threads = 1; threads <= 7; ++threads) {
    set_kernel_threads(threads);
    const std::vector<at::Tensor> inputs = {layer.x, layer.beside, layer.weight, layer.bias};
    auto all = layer.own();
    const auto gradients = torch::autograd::grad({(all[0] * dy).sum(), all[1].sum()}, inputs);
    all.insert(all.end(), gradients.begin(), gradients.end());
    const at::Tensor rms = *rms_norm(layer.x, layer.weight, kRowEpsilon);
    all.push_back(rms);
    all.push_back(torch::autograd::grad({(rms * dy).sum()}, {layer.weight})[0]);
    if (threads == 1) one = all;
    for (size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(same_bits(all[i], one[i])) << threads << i;
  }
  set_kernel_threads(0);
}

// At odd sizes, between pages that cannot be touched.
TEST_F(LayerNormTest, InstructionSetsAgreeToTheBit) {
  for (const int64_t columns : {1, 15, 16, 65, 203}) {
    const int64_t rows = 3;
    const RowNorm layer = make_rows({rows, columns});
    const auto run = [&](const LayerNormKernels& kernels) {
      const Fenced x(layer.x), beside(layer.beside), weight(layer.weight), bias(layer.bias);
      const Fenced sum(rows * columns), y(rows * columns), mean(rows), inverse(rows);
      const Fenced dx(rows * columns), dweight(columns), dbias(columns);
      std::vector<at::Tensor> out;
      for (const bool centered : {true, false}) {
        kernels.of_float.forward(
            columns,
            {x.data(), beside.data(), weight.data(), centered ? bias.data() : nullptr, kRowEpsilon,
             sum.data(), y.data(), centered ? mean.data() : nullptr, inverse.data()},
            0, rows, /*room=*/nullptr);
        kernels.of_float.backward(columns,
                                  {y.data(), beside.data(), sum.data(), weight.data(),
                                   centered ? mean.data() : nullptr, inverse.data(), dx.data()},
                                  0, rows, dweight.data(), centered ? dbias.data() : nullptr,
                                  /*room=*/nullptr);
        for (const Fenced* each : {&sum, &y, &dx}) out.push_back(each->tensor({rows, columns}));
        for (const Fenced* each : {&dweight, &dbias}) out.push_back(each->tensor({columns}));
        for (const Fenced* each : {&mean, &inverse}) out.push_back(each->tensor({rows}));
      }
      return out;
    };
    const auto baseline = run(layer_norm_kernels_baseline());
    const auto agree = [&](const std::vector<at::Tensor>& got, const char* name) {
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(same_bits(got[i], baseline[i])) << name << columns << " " << i;
      }
    };
#if defined(__x86_64__)
    if (cpu_supports(CpuIsa::kAvx2)) agree(run(layer_norm_kernels_avx2()), "avx2 ");
    if (cpu_supports(CpuIsa::kAvx512)) agree(run(layer_norm_kernels_avx512()), "avx512 ");
#endif
    agree(run(layer_norm_kernels()), "chosen ");
  }
}

TEST_F(LayerNormTest, NaNsAndInfinitiesReachWhatTheyReachInLibtorch) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {nan, infinity, -infinity}) {
    for (const int where : {0, 1, 2, 3}) {  // x, weight, bias, the gradient
      const at::Tensor x = torch::randn({5, 37}), weight = torch::rand({37}),
                       bias = torch::randn({37}), dy = torch::randn({5, 37});
      if (where == 0) x[2][36] = bad;
      if (where == 1) weight[4] = bad;
      if (where == 2) bias[36] = bad;
      if (where == 3) dy[1][8] = bad;
      const auto run = [&] {
        const at::Tensor from = row_leaf(x), w = row_leaf(weight), b = row_leaf(bias);
        const at::Tensor y = torch::layer_norm(from, {37}, w, b, kRowEpsilon);
        y.backward(dy);
        return std::vector<at::Tensor>{y.detach(), from.grad(), w.grad(), b.grad()};
      };
      const auto own = run();
      const auto want = outside(run);
      for (size_t i = 0; i < own.size(); ++i) {
        EXPECT_TRUE(own[i].isfinite().equal(want[i].isfinite())) << bad << where << i;
        // The gradient of x adds infinities, in an order of its own.
        if (i == 1) continue;
        EXPECT_TRUE(own[i].isnan().equal(want[i].isnan())) << bad << where << i;
      }
    }
  }
}

TEST_F(LayerNormTest, OthersAreLeftToLibtorch) {
  const RowNorm good = make_rows({3, 8});
  const auto taken = [](const RowNorm& each) {
    return layer_norm_of_sum(each.x, each.beside, each.weight, each.bias, {8}, kRowEpsilon)
        .has_value();
  };
  EXPECT_TRUE(taken(good));
  EXPECT_FALSE(taken(good.as_double()));
  RowNorm other = good;
  other.x = torch::randn({8, 3}).t();
  EXPECT_FALSE(taken(other));
  other = good;
  other.beside = torch::randn({1, 8});
  EXPECT_FALSE(taken(other));
  other = good;
  other.weight = torch::randn({4});
  EXPECT_FALSE(taken(other));
  EXPECT_FALSE(taken(make_rows({0, 8})));
  EXPECT_FALSE(rms_norm(torch::randn({3, 8}), torch::randn({3}), kRowEpsilon));
  EXPECT_EQ(torch::layer_norm(torch::empty({0, 8}), {8}).numel(), 0);
}

}  // namespace
}  // namespace strata::kernels
