// Attention in tiles against the formula in double precision.
#include "kernels/attention.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention_kernels.h"
#include "kernels/attention_operator.h"
#include "kernels/attention_products.h"
#include "kernels/fenced_allocator.h"
#include "kernels/kernel_threads.h"
#include "kernels/replica_like.h"

namespace strata::kernels {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();

at::Tensor head_leaf(const at::Tensor& value) { return value.detach().set_requires_grad(true); }

struct HeadsShape {
  int64_t batch, heads, key_heads, queries, keys, depth, value_depth;
};

/// Query, key and value `[batch, heads, time, depth]` that lie as `[batch, time, heads, depth]`.
struct Heads {
  at::Tensor query, key, value;

  static Heads make(const HeadsShape& s) {
    const auto heads = [](int64_t batch, int64_t count, int64_t time, int64_t depth) {
      return head_leaf(torch::randn({batch, time, count, depth}).transpose(1, 2));
    };
    return {heads(s.batch, s.heads, s.queries, s.depth),
            heads(s.batch, s.key_heads, s.keys, s.depth),
            heads(s.batch, s.key_heads, s.keys, s.value_depth)};
  }
  Heads in_double() const {
    return {head_leaf(query.detach().to(at::kDouble)), head_leaf(key.detach().to(at::kDouble)),
            head_leaf(value.detach().to(at::kDouble))};
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(query.size(-1))); }
  std::vector<at::Tensor> all() const { return {query, key, value}; }

  at::Tensor own(const AttentionMask& mask, UnseeingQueries unseeing) const {
    const auto output = attention(query, key, value, mask, scale(), unseeing);
    EXPECT_TRUE(output.has_value());
    return output.value_or(at::Tensor());
  }
  /// The formula, mask by mask.
  at::Tensor formula(const AttentionMask& mask, UnseeingQueries unseeing) const {
    const int64_t shared = query.size(1) / key.size(1);
    const at::Tensor k = key.repeat_interleave(shared, 1);
    const at::Tensor v = value.repeat_interleave(shared, 1);
    at::Tensor scores = torch::matmul(query, k.transpose(-2, -1)) * scale();
    at::Tensor seen = torch::ones(scores.sizes(), at::kBool);
    if (mask.scores && mask.scores->scalar_type() == at::kBool) {
      seen = seen.logical_and(*mask.scores);
    } else if (mask.scores) {
      scores = scores + mask.scores->to(at::kDouble);
      seen = seen.logical_and(mask.scores->ne(-kInfinite));
    }
    if (mask.queries) seen = seen.logical_and(mask.queries->view({-1, 1, query.size(2), 1}));
    if (mask.keys) seen = seen.logical_and(mask.keys->view({-1, 1, 1, key.size(2)}));
    if (mask.causal) seen = seen.tril();
    if (mask.window > 0) seen = seen.tril(mask.window - 1).triu(1 - mask.window);
    const double unseen = unseeing == UnseeingQueries::kMean ? 1.0 / k.size(2) : 0;
    const at::Tensor blind = seen.any(-1, true).logical_not();
    scores = scores.masked_fill(seen.logical_not(), -kInfinite).masked_fill(blind, 0);
    return torch::matmul(torch::softmax(scores, -1).masked_fill(blind, unseen), v);
  }
};

struct AttentionCase {
  std::string name;
  HeadsShape shape;
  AttentionMask mask = {};
};

at::Tensor random_mask(at::IntArrayRef sizes, double probability) {
  return torch::rand(sizes).lt(probability);
}

/// Sequences of different lengths, padded.
at::Tensor padding_mask(int64_t batch, int64_t steps) {
  at::Tensor seen = torch::zeros({batch, steps}, at::kBool);
  for (int64_t b = 0; b < batch; ++b) {
    seen.select(0, b).narrow(0, 0, 1 + (b * 37 + 5) % steps).fill_(true);
  }
  return seen;
}

std::vector<AttentionCase> attention_cases() {
  const HeadsShape small = {2, 3, 3, 64, 64, 32, 32};
  const HeadsShape long_one = {1, 2, 2, 200, 300, 16, 24};
  const HeadsShape odd = {2, 2, 1, 67, 131, 7, 5};
  const at::Tensor added = torch::randn({67, 131}) * 2;
  at::Tensor hides = added.clone();
  hides.masked_fill_(random_mask({67, 131}, 0.5), -kInfinite);
  return {
      {"all", small},
      {"all, long", long_one},
      {"all, odd", odd},
      {"one of each", {1, 1, 1, 1, 1, 1, 1}},
      {"one query", {3, 2, 2, 1, 77, 8, 8}},
      {"one key", {1, 2, 2, 9, 1, 4, 4}},
      {"deep", {1, 1, 1, 20, 30, 300, 260}},
      {"causal", small, {.causal = true}},
      {"causal, long", {1, 1, 1, 300, 300, 8, 8}, {.causal = true}},
      {"causal, more keys", long_one, {.causal = true}},
      {"causal, more queries", {1, 2, 1, 300, 140, 9, 9}, {.causal = true}},
      {"window", {1, 2, 2, 300, 280, 8, 8}, {.window = 20}},
      {"window of one", {1, 1, 1, 70, 70, 8, 8}, {.window = 1}},
      {"wide window, causal", {1, 1, 1, 270, 270, 8, 8}, {.causal = true, .window = 150}},
      {"wider than all", small, {.window = std::numeric_limits<int64_t>::max()}},
      {"groups", {2, 6, 2, 50, 40, 16, 16}, {.causal = true}},
      {"padding", {3, 2, 2, 100, 300, 8, 8}, {.keys = padding_mask(3, 300)}},
      {"padding of both",
       {3, 2, 2, 100, 100, 8, 8},
       {.queries = padding_mask(3, 100), .keys = padding_mask(3, 100), .causal = true}},
      {"keys with holes", odd, {.keys = random_mask({2, 131}, 0.5)}},
      {"no keys at all", odd, {.keys = torch::zeros({2, 131}, at::kBool)}},
      {"boolean matrix", odd, {.scores = random_mask({67, 131}, 0.3)}},
      {"few of many", {1, 2, 2, 300, 300, 8, 8}, {.scores = random_mask({300, 300}, 0.003)}},
      {"boolean of batches", odd, {.scores = random_mask({2, 1, 67, 131}, 0.3), .causal = true}},
      {"boolean of heads", odd, {.scores = random_mask({1, 2, 1, 131}, 0.3)}},
      {"boolean of queries", odd, {.scores = random_mask({67, 1}, 0.6)}},
      {"boolean by columns", odd, {.scores = random_mask({131, 67}, 0.3).t()}},
      {"added", odd, {.scores = added}},
      {"added, causal", odd, {.scores = added, .causal = true}},
      {"added, hides", odd, {.scores = hides, .keys = random_mask({2, 131}, 0.8)}},
      {"a block that sees nothing",
       {1, 1, 1, 200, 200, 8, 8},
       {.scores = torch::ones({200, 200}, at::kBool).triu(1).narrow(0, 0, 200)}},
  };
}

class AttentionKernelTest : public testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(11);
    at::set_num_threads(1);
    if (!attention(torch::ones({1, 1, 4, 4}), torch::ones({1, 1, 4, 4}), torch::ones({1, 1, 4, 4}),
                   {}, 1, UnseeingQueries::kZero)) {
      GTEST_SKIP() << "libtorch's products are chosen";
    }
  }
};

TEST_F(AttentionKernelTest, ValuesAndGradientsAgreeWithDouble) {
  for (const AttentionCase& each : attention_cases()) {
    for (const UnseeingQueries unseeing : {UnseeingQueries::kZero, UnseeingQueries::kMean}) {
      SCOPED_TRACE(each.name);
      const Heads x = Heads::make(each.shape);
      const Heads exact = x.in_double();
      const at::Tensor output = x.own(each.mask, unseeing);
      const at::Tensor want = exact.formula(each.mask, unseeing);
      EXPECT_LT(largest_error(output.detach(), want.detach()), 2e-6);
      const at::Tensor gradient = torch::randn(output.sizes());
      const auto got_gradients = torch::autograd::grad({output}, x.all(), {gradient});
      const auto gradients = torch::autograd::grad({want}, exact.all(), {gradient.to(at::kDouble)});
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_LT(largest_error(got_gradients[i], gradients[i]), 1e-5) << i;
      }
    }
  }
}

/// Mean squares of the errors of values and gradients.
std::vector<double> squared_errors(const std::vector<at::Tensor>& got,
                                   const std::vector<at::Tensor>& exact) {
  std::vector<double> errors;
  for (size_t i = 0; i < got.size(); ++i) {
    errors.push_back((got[i].to(at::kDouble) - exact[i]).pow(2).mean().item<double>());
  }
  return errors;
}

TEST_F(AttentionKernelTest, ErrorsAreNoLargerThanLibtorchs) {
  for (const int64_t steps : {60, 300}) {
    const Heads x = Heads::make({2, 2, 2, steps, steps, 64, 64});
    const Heads exact = x.in_double();
    const at::Tensor gradient = torch::randn({2, 2, steps, 64});
    const auto all = [&](const Heads& of, const at::Tensor& output) {
      auto list = torch::autograd::grad({output}, of.all(), {gradient.to(output.scalar_type())});
      list.push_back(output.detach());
      return list;
    };
    const auto want = all(exact, exact.formula({.causal = true}, UnseeingQueries::kZero));
    const auto own = squared_errors(all(x, x.own({.causal = true}, UnseeingQueries::kZero)), want);
    const auto libtorch = squared_errors(
        all(x, torch::scaled_dot_product_attention(x.query, x.key, x.value, {}, 0, true)), want);
    for (size_t i = 0; i < own.size(); ++i) EXPECT_LT(own[i], 1.1 * libtorch[i]) << i;
  }
}

TEST_F(AttentionKernelTest, TheOperatorsOfATenSayTheSame) {
  for (const AttentionCase& each : attention_cases()) {
    SCOPED_TRACE(each.name);
    const Heads x = Heads::make(each.shape);
    const AttentionMask& m = each.mask;
    const at::NoGradGuard no_grad;
    for (const bool mean : {false, true}) {
      const auto [output, sums] = call_attention(x.query, x.key, x.value, m.scores, m.queries,
                                                 m.keys, m.causal, m.window, x.scale(), mean);
      const auto [want, want_sums] = attention_of_aten(x.query, x.key, x.value, m.scores, m.queries,
                                                       m.keys, m.causal, m.window, x.scale(), mean);
      EXPECT_LT(largest_error(output, want), 2e-6);
      EXPECT_TRUE(output.transpose(1, 2).is_contiguous());
      EXPECT_TRUE(want.transpose(1, 2).is_contiguous());
      EXPECT_TRUE(torch::allclose(sums, want_sums, 1e-5, 1e-5));
      const at::Tensor g = torch::randn(output.sizes());
      const auto got =
          call_attention_backward(g, x.query, x.key, x.value, output, sums, m.scores, m.queries,
                                  m.keys, m.causal, m.window, x.scale(), mean);
      const auto gradients =
          attention_backward_of_aten(g, x.query, x.key, x.value, output, sums, m.scores, m.queries,
                                     m.keys, m.causal, m.window, x.scale(), mean);
      EXPECT_LT(largest_error(std::get<0>(got), std::get<0>(gradients)), 1e-5);
      EXPECT_LT(largest_error(std::get<1>(got), std::get<1>(gradients)), 1e-5);
      EXPECT_LT(largest_error(std::get<2>(got), std::get<2>(gradients)), 1e-5);
    }
  }
}

TEST_F(AttentionKernelTest, HasShapesWithoutValues) {
  const auto meta = [](at::IntArrayRef sizes) {
    return torch::empty(sizes, at::TensorOptions(at::kMeta));
  };
  const auto [output, sums] =
      call_attention(meta({2, 4, 5, 8}), meta({2, 2, 7, 8}), meta({2, 2, 7, 3}), {}, {}, {},
                     /*causal=*/true, 0, 1, true);
  EXPECT_EQ(output.sizes(), (at::IntArrayRef{2, 4, 5, 3}));
  EXPECT_EQ(output.strides(), (at::IntArrayRef{60, 3, 12, 1}));
  EXPECT_EQ(sums.sizes(), (at::IntArrayRef{2, 4, 5}));
  EXPECT_TRUE(output.is_meta());
  const auto gradients =
      call_attention_backward(output, meta({2, 4, 5, 8}), meta({2, 2, 7, 8}), meta({2, 2, 7, 3}),
                              output, sums, {}, {}, {}, true, 0, 1, true);
  EXPECT_EQ(std::get<0>(gradients).sizes(), (at::IntArrayRef{2, 4, 5, 8}));
  EXPECT_EQ(std::get<1>(gradients).sizes(), (at::IntArrayRef{2, 2, 7, 8}));
  EXPECT_EQ(std::get<2>(gradients).sizes(), (at::IntArrayRef{2, 2, 7, 3}));
}

TEST_F(AttentionKernelTest, TakesOtherTypesInOperatorsOfATen) {
  const Heads x = Heads::make({1, 2, 1, 5, 6, 4, 4}).in_double();
  EXPECT_FALSE(attention(x.query, x.key, x.value, {}, 1, UnseeingQueries::kZero).has_value());
  const at::Tensor output =
      std::get<0>(call_attention(x.query, x.key, x.value, {}, {}, {}, true, 0, x.scale(), false));
  const at::Tensor want = x.formula({.causal = true}, UnseeingQueries::kZero);
  EXPECT_TRUE(torch::allclose(output, want));
  const auto got = torch::autograd::grad({output.pow(2).sum()}, x.all());
  const auto gradients = torch::autograd::grad({want.pow(2).sum()}, x.all());
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(torch::allclose(got[i], gradients[i]));
}

TEST_F(AttentionKernelTest, HasSecondDerivatives) {
  const AttentionMask mask = {.keys = random_mask({2, 9}, 0.6), .causal = true};
  const Heads x = Heads::make({2, 4, 2, 8, 9, 5, 6});
  const Heads exact = x.in_double();
  const auto penalty = [&](const Heads& each, const at::Tensor& output) {
    const auto gradients = torch::autograd::grad({output.pow(3).sum()}, each.all(), {},
                                                 std::nullopt, /*create_graph=*/true);
    at::Tensor sum = gradients[0].pow(2).sum();
    for (size_t i = 1; i < 3; ++i) sum = sum + gradients[i].pow(2).sum();
    return torch::autograd::grad({sum}, each.all());
  };
  const auto got = penalty(x, x.own(mask, UnseeingQueries::kMean));
  const auto want = penalty(exact, exact.formula(mask, UnseeingQueries::kMean));
  for (size_t i = 0; i < 3; ++i) EXPECT_LT(largest_error(got[i], want[i]), 1e-4);
}

TEST_F(AttentionKernelTest, TakesAnyStrides) {
  const AttentionMask mask = {.causal = true};
  const Heads x = {head_leaf(torch::randn({2, 3, 40, 24}).narrow(3, 5, 8)),
                   head_leaf(torch::randn({1, 3, 50, 8}).expand({2, 3, 50, 8})),
                   head_leaf(torch::randn({3, 2, 50, 8}).transpose(0, 1))};
  const Heads exact = x.in_double();
  const at::Tensor output = x.own(mask, UnseeingQueries::kZero);
  const at::Tensor want = exact.formula(mask, UnseeingQueries::kZero);
  EXPECT_LT(largest_error(output.detach(), want.detach()), 2e-6);
  // An expanded gradient, and one whose last dimension is not contiguous.
  for (const at::Tensor& g :
       {torch::ones({}).expand(output.sizes()), torch::randn({2, 3, 8, 40}).transpose(2, 3)}) {
    const auto got = torch::autograd::grad({output}, x.all(), {g}, /*retain_graph=*/true);
    const auto gradients =
        torch::autograd::grad({want}, exact.all(), {g.to(at::kDouble)}, /*retain_graph=*/true);
    for (size_t i = 0; i < 3; ++i) EXPECT_LT(largest_error(got[i], gradients[i]), 1e-5);
  }
  // Rows that are not contiguous are libtorch's.
  EXPECT_FALSE(attention(torch::randn({2, 3, 8, 40}).transpose(2, 3), x.key, x.value, {}, 1,
                         UnseeingQueries::kZero)
                   .has_value());
}

TEST_F(AttentionKernelTest, BitsDoNotDependOnThreads) {
  for (const AttentionCase& each : attention_cases()) {
    SCOPED_TRACE(each.name);
    const Heads x = Heads::make(each.shape);
    const at::Tensor gradient = torch::randn(
        {each.shape.batch, each.shape.heads, each.shape.queries, each.shape.value_depth});
    const auto run = [&](int threads) {
      set_kernel_threads(threads);
      const at::Tensor output = x.own(each.mask, UnseeingQueries::kMean);
      auto all = torch::autograd::grad({output}, x.all(), {gradient});
      all.push_back(output.detach());
      set_kernel_threads(0);
      return all;
    };
    const auto one = run(1);
    for (int threads = 2; threads <= 7; ++threads) {
      const auto many = run(threads);
      for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(same_bits(many[i], one[i])) << threads;
    }
  }
}

TEST_F(AttentionKernelTest, TouchesNoMemoryBesideItsTensors) {
  const FencedAllocator fenced;
  for (const AttentionCase& each : attention_cases()) {
    const Heads x = Heads::make(each.shape);
    const at::Tensor output = x.own(each.mask, UnseeingQueries::kMean);
    output.backward(torch::ones(output.sizes()));
  }
}

TEST_F(AttentionKernelTest, HoldsNoScores) {
  FencedAllocator fenced;
  const int64_t steps = 1024;
  const Heads x = Heads::make({1, 2, 2, steps, steps, 16, 16});
  const at::Tensor gradient = torch::randn({1, 2, steps, 16});
  fenced.forget();
  x.own({.queries = padding_mask(1, steps), .keys = padding_mask(1, steps), .causal = true},
        UnseeingQueries::kMean)
      .backward(gradient);
  EXPECT_LE(fenced.largest(), static_cast<size_t>(steps) * 2 * 16 * sizeof(float));
}

TEST_F(AttentionKernelTest, NeedsLessMemoryThanLibtorchs) {
  FencedAllocator fenced;
  const int64_t steps = 512;
  const Heads x = Heads::make({1, 4, 4, steps, steps, 64, 64});
  const at::Tensor gradient = torch::randn({1, 4, steps, 64});
  const auto peak = [&](const std::function<at::Tensor()>& forward) {
    fenced.forget();
    torch::autograd::grad({forward()}, x.all(), {gradient});
    return fenced.peak();
  };
  const size_t own = peak([&] { return x.own({.causal = true}, UnseeingQueries::kZero); });
  const size_t libtorch = peak([&] {
    return torch::scaled_dot_product_attention(x.query, x.key, x.value, {}, 0, /*is_causal=*/true);
  });
  EXPECT_LT(own, libtorch);
  RecordProperty("own", static_cast<int>(own));
  RecordProperty("libtorch", static_cast<int>(libtorch));
}

TEST_F(AttentionKernelTest, NaNAndInfinityReachWhatSeesThem) {
  const HeadsShape shape = {1, 1, 1, 70, 150, 8, 8};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {nan, kInfinite, -kInfinite}) {
    for (const int which : {0, 1, 2}) {
      SCOPED_TRACE(testing::Message() << bad << " in " << which);
      Heads x = Heads::make(shape);
      {
        const at::NoGradGuard no_grad;
        x.all()[static_cast<size_t>(which)].select(2, 40).select(2, 3).fill_(bad);
      }
      const at::Tensor got = x.own({}, UnseeingQueries::kZero);
      const at::Tensor want = x.formula({}, UnseeingQueries::kZero);
      EXPECT_TRUE(got.isnan().equal(want.isnan()));
      EXPECT_TRUE(got.isinf().equal(want.isinf()));
      const at::Tensor gradient = torch::randn(got.sizes());
      const auto got_gradients = torch::autograd::grad({got}, x.all(), {gradient});
      const auto gradients = torch::autograd::grad({want}, x.all(), {gradient});
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(got_gradients[i].isfinite().equal(gradients[i].isfinite())) << i;
      }
    }
  }
}

TEST_F(AttentionKernelTest, LargeScoresDoNotOverflow) {
  Heads x = Heads::make({1, 1, 1, 80, 300, 8, 8});
  x.query = head_leaf(x.query.detach() * 1e3);
  const at::Tensor got = x.own({}, UnseeingQueries::kZero);
  EXPECT_LT(largest_error(got.detach(), x.in_double().formula({}, UnseeingQueries::kZero).detach()),
            1e-3);
  EXPECT_TRUE(torch::autograd::grad({got.sum()}, x.all())[0].isfinite().all().item<bool>());
}

TEST_F(AttentionKernelTest, ScaledDotProductAttentionUsesItInReplicas) {
  const Heads x = Heads::make({2, 4, 4, 50, 60, 16, 16});
  const Heads groups = Heads::make({2, 4, 2, 50, 60, 16, 16});
  const at::Tensor boolean = random_mask({50, 60}, 0.7);
  const at::Tensor added = torch::randn({2, 1, 50, 60});
  const at::Tensor gradient = torch::randn({2, 4, 50, 16});
  const auto expect_same = [&](const Heads& given, const std::optional<at::Tensor>& mask,
                               bool causal) {
    const at::Tensor want = given.own({.scores = mask, .causal = causal}, UnseeingQueries::kZero);
    const auto want_gradients = torch::autograd::grad({want}, given.all(), {gradient});
    const ReplicaLike replica;
    const bool shared = given.key.size(1) != given.query.size(1);
    const at::Tensor got = torch::scaled_dot_product_attention(
        given.query, given.key, given.value, mask, 0, causal, std::nullopt, shared);
    const auto gradients = torch::autograd::grad({got}, given.all(), {gradient});
    EXPECT_TRUE(same_bits(got, want));
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(gradients[i], want_gradients[i])) << i;
  };
  expect_same(x, {}, false);
  expect_same(x, {}, true);
  expect_same(x, added, false);
  expect_same(x, boolean, false);
  expect_same(groups, {}, true);
  {
    const ReplicaLike replica;
    const auto doubles = x.in_double();
    EXPECT_TRUE(torch::allclose(
        torch::scaled_dot_product_attention(doubles.query, doubles.key, doubles.value),
        doubles.formula({}, UnseeingQueries::kZero)));
    torch::manual_seed(3);
    EXPECT_TRUE(torch::scaled_dot_product_attention(x.query, x.key, x.value, {}, 0.5)
                    .isfinite()
                    .all()
                    .item<bool>());
  }
}

TEST_F(AttentionKernelTest, ModulesOfLibtorchAgreeWithDouble) {
  // They multiply, take the softmax and multiply again, in operators that may be this library's.
  torch::nn::TransformerEncoderLayer layer(
      torch::nn::TransformerEncoderLayerOptions(24, 4).dim_feedforward(32).dropout(0));
  const auto exact =
      std::dynamic_pointer_cast<torch::nn::TransformerEncoderLayerImpl>(layer->clone());
  exact->to(at::kDouble);
  const at::Tensor x = torch::randn({20, 3, 24});
  const at::Tensor mask = torch::full({20, 20}, -kInfinite).triu(1);
  at::Tensor padding = torch::zeros({3, 20}, at::kBool);
  padding.select(0, 1).narrow(0, 12, 8).fill_(true);
  const at::Tensor want = exact->forward(x.to(at::kDouble), mask.to(at::kDouble), padding);
  want.pow(2).sum().backward();
  const ReplicaLike replica;
  const at::Tensor got = layer->forward(x, mask, padding);
  got.pow(2).sum().backward();
  EXPECT_LT(largest_error(got.detach(), want.detach()), 1e-5);
  const auto parameters = layer->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_LT(largest_error(parameters[i].grad(), exact->parameters()[i].grad()), 1e-5) << i;
  }
}

TEST_F(AttentionKernelTest, ComputesOnlyTheGradientsThatAreWanted) {
  const Heads x = Heads::make({1, 1, 1, 5, 6, 4, 4});
  const at::Tensor output = x.own({}, UnseeingQueries::kZero);
  EXPECT_EQ(output.grad_fn()->name(), "TiledAttentionBackward");
  EXPECT_EQ(torch::autograd::grad({output.sum()}, {x.value}).size(), 1U);
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(x.own({}, UnseeingQueries::kZero).requires_grad());
}

TEST_F(AttentionKernelTest, NoticesWhatWasChangedInPlace) {
  const Heads x = Heads::make({1, 1, 1, 5, 6, 4, 4});
  const at::Tensor loss = x.own({}, UnseeingQueries::kZero).sum();
  loss.backward({}, /*retain_graph=*/true);
  {
    const at::NoGradGuard no_grad;
    x.key.add_(1);
  }
  EXPECT_THROW(loss.backward(), std::exception);
}

/// All kernels on a tile, with one instruction set's.
std::vector<at::Tensor> tile_by(const AttentionKernels& kernels, const AttentionProducts& products,
                                bool masked, bool whole, int64_t lanes) {
  torch::manual_seed(5);
  const int64_t rows = 9, keys = 77, depth = 21;
  const at::Tensor query = torch::randn({rows, depth}), key = torch::randn({keys, depth});
  const at::Tensor queries = torch::zeros({depth, lanes}), scores = torch::zeros({keys, lanes});
  products.transpose_padded(query.const_data_ptr<float>(), depth, rows, depth,
                            queries.mutable_data_ptr<float>(), lanes);
  products.multiply({.rows = keys,
                     .columns = lanes,
                     .k = depth,
                     .p = {key.const_data_ptr<float>(), depth, 1},
                     .q = queries.const_data_ptr<float>(),
                     .q_stride = lanes,
                     .d = scores.mutable_data_ptr<float>(),
                     .d_stride = lanes});
  const at::Tensor product = scores.clone(), again = scores.clone();
  const at::Tensor gradients = torch::randn({keys, lanes});
  const at::Tensor bias =
      torch::randn({keys, lanes}).masked_fill(random_mask({keys, lanes}, 0.2), -kInfinite);
  std::vector<int32_t> begin, end;
  for (int32_t lane = 0; lane < lanes; ++lane) {
    begin.push_back(lane);
    end.push_back(std::max(0, 77 - lane * 7));
  }
  ScoreTile tile = {.scores = scores.mutable_data_ptr<float>(),
                    .lanes = lanes,
                    .keys = keys,
                    .bias = masked ? bias.const_data_ptr<float>() : nullptr,
                    .begin = whole ? nullptr : begin.data(),
                    .end = whole ? nullptr : end.data()};
  at::Tensor largest = torch::full({lanes}, -kInfinite), sum = torch::zeros({lanes}),
             factor = torch::zeros({lanes}), sums = torch::zeros({lanes}),
             delta = torch::zeros({lanes});
  const RunningSoftmax running = {largest.mutable_data_ptr<float>(), sum.mutable_data_ptr<float>(),
                                  factor.mutable_data_ptr<float>()};
  kernels.softmax(tile, running);
  const at::Tensor value = torch::randn({keys, 32});
  at::Tensor output = torch::randn({rows, depth});
  products.multiply({.rows = rows,
                     .columns = depth,
                     .k = keys,
                     .p = {scores.const_data_ptr<float>(), 1, lanes},
                     .q = value.const_data_ptr<float>(),
                     .q_stride = 32,
                     .d = output.mutable_data_ptr<float>(),
                     .d_stride = depth,
                     .add = true,
                     .factor = factor.const_data_ptr<float>()});
  kernels.finish(output.mutable_data_ptr<float>(), depth, rows, depth, running, nullptr,
                 sums.mutable_data_ptr<float>());
  const at::Tensor x = torch::randn({lanes, 19});
  kernels.row_dots(x.const_data_ptr<float>(), 19, x.const_data_ptr<float>(), 19, lanes, 19,
                   delta.mutable_data_ptr<float>());
  tile.scores = again.mutable_data_ptr<float>();
  kernels.softmax_backward(tile, sums.const_data_ptr<float>(),
                           whole ? nullptr : delta.const_data_ptr<float>(),
                           gradients.mutable_data_ptr<float>());
  const at::Tensor rows_of_query = torch::zeros({rows, 32}), of_keys = torch::randn({keys, depth});
  products.copy_rows(query.const_data_ptr<float>(), depth, rows, depth, 0.3F,
                     rows_of_query.mutable_data_ptr<float>(), 32);
  products.multiply({.rows = keys,
                     .columns = depth,
                     .k = rows,
                     .p = {gradients.const_data_ptr<float>(), lanes, 1},
                     .q = rows_of_query.const_data_ptr<float>(),
                     .q_stride = 32,
                     .d = of_keys.mutable_data_ptr<float>(),
                     .d_stride = depth,
                     .add = true});
  return {product, largest, sum,       factor,  delta,         output, sums,
          scores,  again,   gradients, queries, rows_of_query, of_keys};
}

TEST_F(AttentionKernelTest, TilesHaveTheSameBitsOnEveryInstructionSet) {
  for (const int64_t lanes : {16, 32, 64}) {
    for (const bool masked : {false, true}) {
      for (const bool whole : {false, true}) {
        const auto want = tile_by(attention_kernels_baseline(), attention_products_baseline(),
                                  masked, whole, lanes);
        const auto expect_same = [&](const AttentionKernels& kernels,
                                     const AttentionProducts& products) {
          const auto got = tile_by(kernels, products, masked, whole, lanes);
          for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i;
        };
#if defined(__x86_64__)
        if (cpu_supports(CpuIsa::kAvx2)) {
          expect_same(attention_kernels_avx2(), attention_products_avx2());
        }
        if (cpu_supports(CpuIsa::kAvx512)) {
          expect_same(attention_kernels_avx512(), attention_products_avx512());
        }
#endif
      }
    }
  }
}

}  // namespace
}  // namespace strata::kernels
