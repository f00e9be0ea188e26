// Kernels that read and write bfloat16: what the same kernels give for the same numbers as floats,
// rounded once.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "core/cpu_isa.h"
#include "kernels/activation_kernels.h"
#include "kernels/attention.h"
#include "kernels/attention_products.h"
#include "kernels/fenced.h"
#include "kernels/isas.h"
#include "kernels/kernel_threads.h"
#include "kernels/layer_kernels.h"
#include "kernels/layer_norm.h"
#include "kernels/layer_norm_kernels.h"
#include "kernels/products.h"
#include "kernels/replica_like.h"

namespace strata::kernels {
namespace {

at::Tensor halved(const at::Tensor& x) { return x.to(at::kBFloat16); }
at::Tensor float_leaf(const at::Tensor& half) {
  return half.detach().to(at::kFloat).requires_grad_();
}
at::Tensor half_leaf(const at::Tensor& half) { return half.detach().clone().requires_grad_(); }

/// Numbers of all kinds among normal ones.
at::Tensor halves_of_all_kinds(at::IntArrayRef sizes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  at::Tensor x = torch::randn(sizes) * 3;
  at::Tensor flat = x.view(-1);
  int64_t at = 0;
  for (const float each : {0.0F, -0.0F, kInfinity, -kInfinity, 1e-40F, -1e-40F, 3e38F, -3e38F,
                           std::numeric_limits<float>::quiet_NaN()}) {
    if (at < flat.numel()) flat[at++] = each;
  }
  return halved(x);
}

class Bf16ElementsTest : public testing::Test {
 protected:
  Bf16ElementsTest() { torch::manual_seed(21); }
  ReplicaLike replica_;
};

/// The same bits, but for those of a NaN.
bool same_numbers(const at::Tensor& got, const at::Tensor& want) {
  return got.isnan().equal(want.isnan()) &&
         same_bits(torch::where(got.isnan(), torch::zeros_like(got), got),
                   torch::where(want.isnan(), torch::zeros_like(want), want));
}

struct NamedFunction {
  const char* name;
  std::function<at::Tensor(const at::Tensor&)> function;
  ActivationKernels::Forward* of_float;
};

TEST_F(Bf16ElementsTest, FunctionsOfAnElementAreThoseOfFloatsRoundedOnce) {
  const ActivationKernels& kernels = activation_kernels();
  const std::vector<NamedFunction> functions = {
      {"relu", [](const at::Tensor& x) { return torch::relu(x); }, layer_kernels().relu},
      {"relu_",
       [](const at::Tensor& x) {
         at::Tensor y = x.clone();
         return torch::relu_(y);
       },
       layer_kernels().relu},
      {"gelu", [](const at::Tensor& x) { return torch::gelu(x); }, kernels.gelu},
      {"gelu tanh", [](const at::Tensor& x) { return torch::gelu(x, "tanh"); }, kernels.gelu_tanh},
      {"sigmoid", [](const at::Tensor& x) { return torch::sigmoid(x); }, kernels.sigmoid},
      {"tanh", [](const at::Tensor& x) { return torch::tanh(x); }, kernels.tanh}};
  for (const NamedFunction& each : functions) {
    SCOPED_TRACE(each.name);
    for (const int64_t size : {0, 1, 7, 17, 100, 50000}) {
      const at::Tensor input = halves_of_all_kinds({size});
      const at::Tensor wide = input.to(at::kFloat);
      at::Tensor want = torch::empty({size});
      each.of_float(wide.const_data_ptr<float>(), size, want.mutable_data_ptr<float>());
      EXPECT_TRUE(same_numbers(each.function(input), halved(want))) << size;
    }
    const at::Tensor turned = halved(torch::randn({3, 50, 41})).transpose(1, 2);
    EXPECT_EQ(each.function(turned).strides(), turned.strides());
  }
}

/// The gradient of x.
template <typename Function>
at::Tensor gradient_of(const Function& function, const at::Tensor& x, const at::Tensor& dy) {
  const at::Tensor leaf = half_leaf(x);
  function(leaf).backward(dy);
  return leaf.grad();
}

TEST_F(Bf16ElementsTest, GradientsOfAnElementAreThoseOfFloatsRoundedOnce) {
  const ActivationKernels& kernels = activation_kernels();
  for (const int64_t size : {1, 17, 50000}) {
    SCOPED_TRACE(size);
    const at::Tensor x = halves_of_all_kinds({size});
    const at::Tensor dy = halved(torch::randn({size}));
    const at::Tensor wide = x.to(at::kFloat), wide_dy = dy.to(at::kFloat);
    at::Tensor want = torch::empty({size});
    for (const bool by_tanh : {false, true}) {
      auto* const backward = by_tanh ? kernels.gelu_tanh_backward : kernels.gelu_backward;
      backward(wide_dy.const_data_ptr<float>(), wide.const_data_ptr<float>(), size,
               want.mutable_data_ptr<float>());
      const auto gelu = [&](const at::Tensor& t) {
        return torch::gelu(t, by_tanh ? "tanh" : "none");
      };
      EXPECT_TRUE(same_numbers(gradient_of(gelu, x, dy), halved(want))) << by_tanh;
    }
    const auto relu = [](const at::Tensor& t) { return torch::relu(t); };
    EXPECT_TRUE(same_bits(gradient_of(relu, x, dy),
                          halved(at::threshold_backward(wide_dy, wide.relu(), 0))));
  }
  const at::Tensor x = halves_of_all_kinds({40});
  const at::Tensor dy = halved(torch::randn({40}));
  EXPECT_TRUE(same_bits(at::threshold_backward(dy, x, 0.5),
                        halved(at::threshold_backward(dy.to(at::kFloat), x.to(at::kFloat), 0.5))));
}

TEST_F(Bf16ElementsTest, SumsOfColumnsAreThoseOfFloats) {
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {5, 17}, {64, 100}, {4100, 3}, {7, 1030}}) {
    const at::Tensor x = halved(torch::randn({rows, columns + 3})).narrow(1, 0, columns);
    const at::Tensor wide = x.to(at::kFloat);
    const at::Tensor want = column_sums(wide, *matrix_of(wide));
    EXPECT_LT(largest_error(bf16_column_sums(x), want), rows > 4096 ? 1e-6 : 1e-30);
  }
  EXPECT_TRUE(same_bits(bf16_column_sums(halved(torch::ones({9, 4})).t()), torch::full({9}, 4.0F)));
}

TEST_F(Bf16ElementsTest, LayerNormalizationOfASumRoundsTheSumAndTheResult) {
  for (const auto& sizes : std::vector<std::vector<int64_t>>{
           {1, 1}, {3, 15}, {7, 3, 64}, {300, 33}, {40, 256}, {2, 9001}}) {
    SCOPED_TRACE(testing::Message() << at::IntArrayRef(sizes));
    const int64_t columns = sizes.back();
    const at::Tensor x = half_leaf(halved(torch::randn(sizes) * 3 + 5));
    const at::Tensor beside = half_leaf(halved(torch::randn(sizes)));
    const auto weights = [&] {
      return std::vector<at::Tensor>{torch::rand({columns}) + 0.5, torch::randn({columns})};
    };
    const std::vector<at::Tensor> values = weights();
    const auto leaf_of = [](const at::Tensor& t) { return t.clone().requires_grad_(); };
    const at::Tensor weight = leaf_of(values[0]), bias = leaf_of(values[1]);
    const auto own = layer_norm_of_sum(x, beside, weight, bias, {columns}, 1e-3);
    ASSERT_TRUE(own);
    const at::Tensor sum = halved(x.detach().to(at::kFloat) + beside.detach().to(at::kFloat));
    EXPECT_TRUE(same_bits(own->sum, sum));
    const at::Tensor wide = float_leaf(sum);
    const at::Tensor wide_weight = leaf_of(values[0]), wide_bias = leaf_of(values[1]);
    const at::Tensor zeros = torch::zeros(sizes);
    const auto want = layer_norm_of_sum(wide, zeros, wide_weight, wide_bias, {columns}, 1e-3);
    EXPECT_TRUE(same_bits(own->y, halved(want->y)));
    // One gradient, and that of the sum beside it.
    const at::Tensor of_y = halved(torch::randn(sizes)), of_sum = halved(torch::randn(sizes));
    torch::autograd::backward({own->y, own->sum}, {of_y, of_sum});
    torch::autograd::backward({want->y}, {of_y.to(at::kFloat)});
    const at::Tensor first = halved(wide.grad()).to(at::kFloat);
    EXPECT_TRUE(same_bits(x.grad(), halved(first + of_sum.to(at::kFloat))));
    EXPECT_TRUE(same_bits(beside.grad(), x.grad()));
    EXPECT_TRUE(same_bits(weight.grad(), wide_weight.grad()));
    EXPECT_TRUE(same_bits(bias.grad(), wide_bias.grad()));
  }
}

TEST_F(Bf16ElementsTest, LayerNormalizationHasFloatWeights) {
  for (const int64_t columns : {5, 64, 200}) {
    const at::Tensor x = halved(torch::randn({9, columns}) * 2 + 1);
    const at::Tensor weight = torch::rand({columns}) + 0.5, bias = torch::randn({columns});
    const at::Tensor half = half_leaf(x), wide = float_leaf(x);
    const at::Tensor y = torch::layer_norm(half, {columns}, weight, bias);
    const at::Tensor want = torch::layer_norm(wide, {columns}, weight, bias);
    EXPECT_TRUE(same_bits(y, halved(want)));
    const at::Tensor dy = halved(torch::randn(x.sizes()));
    y.backward(dy);
    want.backward(dy.to(at::kFloat));
    EXPECT_TRUE(same_bits(half.grad(), halved(wide.grad())));
  }
  EXPECT_EQ(torch::layer_norm(halved(torch::randn({4, 8})), {8}).scalar_type(), at::kBFloat16);
}

struct HeadsCase {
  int64_t heads, key_heads, queries, keys, depth;
};

TEST_F(Bf16ElementsTest, AttentionIsThatOfFloatsRoundedOnce) {
  const std::vector<HeadsCase> cases = {{3, 3, 17, 17, 8},
                                        {4, 2, 64, 64, 20},
                                        {2, 1, 70, 90, 64},
                                        {2, 2, 5, 1, 3},
                                        {2, 2, 130, 300, 16}};
  for (const HeadsCase& c : cases) {
    for (const bool causal : {false, true}) {
      const auto heads = [&](int64_t count, int64_t rows) {
        return halved(torch::randn({2, rows, count, c.depth})).transpose(1, 2);
      };
      const std::vector<at::Tensor> inputs = {heads(c.heads, c.queries), heads(c.key_heads, c.keys),
                                              heads(c.key_heads, c.keys)};
      const at::Tensor gradient = heads(c.heads, c.queries);
      const AttentionMask mask = {.causal = causal};
      const auto run = [&](const auto& leaf_of, at::ScalarType type) {
        std::vector<at::Tensor> leaves;
        for (const at::Tensor& each : inputs) leaves.push_back(leaf_of(each));
        const auto y =
            attention(leaves[0], leaves[1], leaves[2], mask, 0.3, UnseeingQueries::kMean);
        EXPECT_TRUE(y.has_value());
        y->backward(gradient.to(type));
        return std::vector<at::Tensor>{y->detach(), leaves[0].grad(), leaves[1].grad(),
                                       leaves[2].grad()};
      };
      const auto got = run(half_leaf, at::kBFloat16);
      const auto want = run(float_leaf, at::kFloat);
      // More than a tile of keys: the gradients know the rounded output.
      const bool one_tile = c.keys <= 96;
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].scalar_type(), at::kBFloat16);
        if (i == 0 || one_tile) {
          EXPECT_TRUE(same_bits(got[i], halved(want[i]))) << i << " of " << c.queries;
        } else {
          EXPECT_LT(largest_error(got[i], want[i]), 8e-3) << i << " of " << c.queries;
        }
      }
    }
  }
}

template <typename T>
T* data_of(const at::Tensor& x) {
  return static_cast<T*>(x.mutable_data_ptr());
}

/// What the kernels of an instruction set give for [rows, columns].
std::vector<at::Tensor> of_isa(CpuIsa isa, const at::Tensor& x, const at::Tensor& y) {
  const int64_t rows = x.size(0), columns = x.size(1), size = x.numel();
  std::vector<at::Tensor> results;
  const auto half_result = [&] {
    return data_of<uint16_t>(results.emplace_back(torch::empty({rows, columns}, at::kBFloat16)));
  };
  const auto float_result = [&](int64_t count) {
    return data_of<float>(results.emplace_back(torch::empty({count})));
  };
  const auto* const a = data_of<const uint16_t>(x);
  const auto* const b = data_of<const uint16_t>(y);
  const LayerKernels& layer = STRATA_KERNELS_FOR(isa, layer_kernels);
  layer.relu_bf16(a, size, half_result());
  layer.threshold_bf16(a, b, size, half_result());
  layer.column_sums_bf16(a, rows, columns, columns, float_result(columns));
  const ActivationKernels& activations = STRATA_KERNELS_FOR(isa, activation_kernels);
  std::vector<uint16_t> table(1 << 16);
  std::vector<float> slopes(1 << 16);
  for (size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<uint16_t>(7919 * i);
    slopes[i] = 1 / (1 + static_cast<float>(i));
  }
  activations.look_up(table.data(), a, size, half_result());
  activations.scale_by(slopes.data(), a, b, size, half_result());
  const AttentionProducts& products = STRATA_KERNELS_FOR(isa, attention_products);
  float* const wide = float_result(size);
  products.widen_rows(a, columns, rows, columns, wide, columns);
  products.round_rows(wide, columns, rows, columns, half_result(), columns);
  const auto& norm = STRATA_KERNELS_FOR(isa, layer_norm_kernels).of_bf16;
  const std::vector<float> weight(static_cast<size_t>(columns), 1.5F);
  std::vector<float> room(static_cast<size_t>(kLayerNormRoom * columns));
  uint16_t* const sum = half_result();
  float* const mean = float_result(rows);
  float* const inverse = float_result(rows);
  norm.forward(columns,
               {a, b, weight.data(), weight.data(), 1e-3, sum, half_result(), mean, inverse}, 0,
               rows, room.data());
  float* const of_weight = float_result(columns);
  norm.backward(columns, {b, a, sum, weight.data(), mean, inverse, half_result()}, 0, rows,
                of_weight, float_result(columns), room.data());
  return results;
}

TEST_F(Bf16ElementsTest, InstructionSetsAgreeToTheBit) {
  for (const int64_t columns : {1, 15, 16, 65, 203}) {
    const at::Tensor x = halved(torch::randn({7, columns})), y = halved(torch::randn({7, columns}));
    const auto want = of_isa(CpuIsa::kBaseline, x, y);
    for (const CpuIsa isa : supported_isas()) {
      const auto got = of_isa(isa, x, y);
      for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_TRUE(same_bits(got[i], want[i])) << name_of(isa) << " " << columns << " " << i;
      }
    }
  }
}

TEST_F(Bf16ElementsTest, BitsDoNotDependOnTheNumberOfThreads) {
  const at::Tensor x = halved(torch::randn({600, 256})), beside = halved(torch::randn({600, 256}));
  const at::Tensor weight = torch::rand({256}), bias = torch::randn({256});
  const at::Tensor heads = halved(torch::randn({3, 4, 200, 32}));
  std::vector<at::Tensor> first;
  for (int threads = 1; threads <= 7; ++threads) {
    set_kernel_threads(threads);
    const at::Tensor leaf = half_leaf(x), query = half_leaf(heads), scale = weight.clone();
    scale.requires_grad_();
    const auto normal = layer_norm_of_sum(leaf, beside, scale, bias, {256}, 1e-3);
    normal->y.sum().backward();
    const auto attended =
        attention(query, query, query, {.causal = true}, 0.2, UnseeingQueries::kZero);
    attended->sum().backward();
    const std::vector<at::Tensor> now = {normal->y.detach(), leaf.grad(),  scale.grad(),
                                         attended->detach(), query.grad(), torch::gelu(x)};
    if (threads == 1) first = now;
    for (size_t i = 0; i < now.size(); ++i) EXPECT_TRUE(same_bits(now[i], first[i])) << threads;
  }
  set_kernel_threads(0);
}

TEST_F(Bf16ElementsTest, TouchNothingBesideTheirTensors) {
  for (const auto at : {FencedBytes::At::kEnd, FencedBytes::At::kStart}) {
    for (const int64_t columns : {1, 7, 19, 33}) {
      const FencedTensor x(halved(torch::randn({3, columns})), at);
      const FencedTensor beside(halved(torch::randn({3, columns})), at);
      const FencedTensor heads(halved(torch::randn({1, 2, 5, columns})), at);
      const auto normal = layer_norm_of_sum(x.tensor(), beside.tensor(), {}, {}, {columns}, 1e-3);
      EXPECT_TRUE(normal->y.isfinite().all().item<bool>());
      EXPECT_TRUE(torch::gelu(x.tensor()).isfinite().all().item<bool>());
      EXPECT_TRUE(torch::relu(x.tensor()).ge(0).all().item<bool>());
      EXPECT_EQ(bf16_column_sums(x.tensor()).numel(), columns);
      const auto attended = attention(heads.tensor(), heads.tensor(), heads.tensor(), {}, 1.0,
                                      UnseeingQueries::kZero);
      EXPECT_TRUE(attended->isfinite().all().item<bool>());
    }
  }
}

}  // namespace
}  // namespace strata::kernels
