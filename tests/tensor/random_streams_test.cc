#include "tensor/random_streams.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tensor/mask_kernels.h"

namespace strata::tensor {
namespace {

using Draw = std::function<at::Tensor()>;

/// Every family of random operators, as users reach them.
std::vector<std::pair<std::string, Draw>> families() {
  const auto zeros = [] { return at::zeros({37}); };
  const auto half = [] { return at::full({37}, 0.5); };
  return {
      {"rand", [] { return at::rand({37}); }},
      {"rand_float64", [] { return at::rand({37}, at::kDouble); }},
      {"rand_like", [=] { return at::rand_like(zeros()); }},
      {"randn", [] { return at::randn({37}); }},
      {"randn_small", [] { return at::randn({3}); }},
      {"randn_like", [=] { return at::randn_like(zeros()); }},
      {"randint", [] { return at::randint(1000000, {37}); }},
      {"randint_like", [=] { return at::randint_like(zeros(), 1000000); }},
      {"randperm", [] { return at::randperm(37); }},
      {"uniform_", [=] { return zeros().uniform_(-1, 1); }},
      {"normal_", [=] { return zeros().normal_(1, 2); }},
      {"normal_float_float", [] { return at::normal(0.0, 1.0, {37}); }},
      {"normal_tensor_float", [=] { return at::normal(half(), 1.0); }},
      {"normal_float_tensor", [=] { return at::normal(0.0, half()); }},
      {"normal_tensor_tensor", [=] { return at::normal(half(), half()); }},
      {"random_", [=] { return zeros().random_(); }},
      {"random_to", [=] { return zeros().random_(1000000); }},
      {"random_from", [=] { return zeros().random_(-1000000, 1000000); }},
      {"exponential_", [=] { return zeros().exponential_(); }},
      {"cauchy_", [=] { return zeros().cauchy_(); }},
      {"log_normal_", [=] { return zeros().log_normal_(); }},
      {"geometric_", [=] { return zeros().geometric_(0.01); }},
      {"bernoulli", [=] { return at::bernoulli(half()); }},
      {"bernoulli_p", [=] { return at::bernoulli(half(), 0.5); }},
      {"bernoulli_float_", [=] { return zeros().bernoulli_(0.5); }},
      {"bernoulli_tensor_", [=] { return zeros().bernoulli_(half()); }},
      {"multinomial", [] { return at::multinomial(at::ones({100}), 37); }},
      {"multinomial_replace", [] { return at::multinomial(at::ones({100}), 37, true); }},
      {"poisson", [] { return at::poisson(at::full({37}, 1000.0)); }},
      {"binomial", [] { return at::binomial(at::full({37}, 1000.0), at::full({37}, 0.5)); }},
      {"standard_gamma", [=] { return at::_standard_gamma(half()); }},
      {"sample_dirichlet", [] { return at::_sample_dirichlet(at::ones({37})); }},
      {"rrelu", [] { return at::rrelu(at::full({37}, -1.0), 0.1, 0.9, true); }},
      {"dropout", [] { return at::dropout(at::ones({64}), 0.5, true); }},
      {"alpha_dropout", [] { return at::alpha_dropout(at::ones({64}), 0.5, true); }},
      {"feature_dropout",
       [] {
         return at::feature_dropout(at::ones({64, 2}), 0.5, true);
       }},
      {"native_dropout", [] { return std::get<0>(at::native_dropout(at::ones({64}), 0.5, true)); }},
  };
}

void seed_default_generator(uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(seed);
}

at::Tensor draw_in(RandomStream stream, uint64_t step, const Draw& draw) {
  const RandomStreamGuard guard(stream);
  stream.set_step(step);
  return draw();
}

TEST(RandomStreamTest, EveryFamilyRepeatsAndDiffersBetweenReplicasAndSteps) {
  for (const auto& [name, draw] : families()) {
    SCOPED_TRACE(name);
    seed_default_generator(99);
    const at::Tensor first = draw_in(RandomStream(7, 1), 3, draw);
    at::rand({5});  // moves the default generator on
    EXPECT_TRUE(at::equal(first, draw_in(RandomStream(7, 1), 3, draw)));
    EXPECT_FALSE(at::equal(first, draw_in(RandomStream(7, 2), 3, draw))) << "another replica";
    EXPECT_FALSE(at::equal(first, draw_in(RandomStream(7, 1), 4, draw))) << "another step";
    EXPECT_FALSE(at::equal(first, draw_in(RandomStream(8, 1), 3, draw))) << "another seed";
  }
}

TEST(RandomStreamTest, EveryFamilyLeavesTheDefaultGeneratorAlone) {
  auto default_generator = at::globalContext().defaultGenerator(at::kCPU);
  for (const auto& [name, draw] : families()) {
    SCOPED_TRACE(name);
    const at::Tensor before = default_generator.get_state();
    draw_in(RandomStream(7, 1), 3, draw);
    EXPECT_TRUE(at::equal(before, default_generator.get_state()));
  }
}

TEST(RandomStreamTest, CoversEveryOperatorThatTakesAGenerator) {
  auto& dispatcher = c10::Dispatcher::singleton();
  int found = 0;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || !op->hasKernelForDispatchKey(c10::DispatchKey::CPU)) continue;
    for (const auto& argument : op->schema().arguments()) {
      if (argument.type()->str() != "Generator?") continue;
      ++found;
      EXPECT_TRUE(op->hasKernelForDispatchKey(c10::DispatchKey::CustomRNGKeyId))
          << toString(name) << " draws from the default generator; add it to random_ops.cc";
    }
  }
  EXPECT_GE(found, 25);
}

TEST(RandomStreamTest, OperatorsWithADeviceKernelNeverTakeTheGenericOne) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || !name.name.starts_with("aten::")) continue;
    if (!op->hasKernelForDispatchKey(c10::DispatchKey::CPU)) continue;
    if (op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
        op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional)) {
      EXPECT_TRUE(op->hasKernelForDispatchKey(c10::DispatchKey::CustomRNGKeyId)) << toString(name);
    }
  }
}

TEST(RandomStreamTest, DoesNotDependOnTheThreadOrOnWhatRanBefore) {
  const auto two_draws = [] { return at::cat({at::randn({3}), at::rand({20})}); };
  const at::Tensor expected = draw_in(RandomStream(1, 0), 5, two_draws);
  at::Tensor elsewhere;
  std::thread([&] {
    RandomStream stream(1, 0);
    const RandomStreamGuard guard(stream);
    for (uint64_t step = 0; step < 5; ++step) {
      stream.set_step(step);
      // An odd number of normal draws leaves half of a pair in the generator.
      for (uint64_t i = 0; i <= step; ++i) at::randn({1});
    }
    stream.set_step(5);
    elsewhere = two_draws();
  }).join();
  EXPECT_TRUE(at::equal(expected, elsewhere));
}

TEST(RandomStreamTest, DrawsWithinAStepGoOn) {
  RandomStream stream(1, 0);
  const RandomStreamGuard guard(stream);
  const at::Tensor first = at::rand({8});
  EXPECT_FALSE(at::equal(first, at::rand({8})));
  stream.set_step(0);
  EXPECT_TRUE(at::equal(first, at::rand({8})));
}

TEST(RandomStreamTest, ConcurrentReplicasDoNotDisturbEachOther) {
  constexpr int kReplicas = 4;
  const auto run = [](int replica) {
    RandomStream stream(11, static_cast<uint64_t>(replica));
    const RandomStreamGuard guard(stream);
    std::vector<at::Tensor> draws;
    for (uint64_t step = 0; step < 50; ++step) {
      stream.set_step(step);
      draws.push_back(at::dropout(at::ones({100}), 0.3, true));
      draws.push_back(at::randn({10}));
    }
    return at::cat(draws);
  };
  std::vector<at::Tensor> together(kReplicas);
  std::vector<std::thread> threads;
  for (int replica = 0; replica < kReplicas; ++replica) {
    threads.emplace_back([&, replica] { together[replica] = run(replica); });
  }
  for (auto& thread : threads) thread.join();
  for (int replica = 0; replica < kReplicas; ++replica) {
    EXPECT_TRUE(at::equal(together[replica], run(replica))) << replica;
  }
}

TEST(RandomStreamTest, ModulesWithDropoutAreReproducible) {
  torch::nn::Sequential model(torch::nn::Linear(8, 8), torch::nn::Dropout(0.5),
                              torch::nn::Linear(8, 4), torch::nn::AlphaDropout(0.5));
  const at::Tensor input = at::ones({4, 8});
  const auto gradient = [&](uint64_t id, uint64_t step) {
    RandomStream stream(3, id);
    stream.set_step(step);
    const RandomStreamGuard guard(stream);
    model->zero_grad();
    model->forward(input).sum().backward();
    return model->parameters()[0].grad().clone();
  };
  const at::Tensor expected = gradient(0, 1);
  EXPECT_TRUE(at::equal(expected, gradient(0, 1)));
  EXPECT_FALSE(at::equal(expected, gradient(1, 1)));
  EXPECT_FALSE(at::equal(expected, gradient(0, 2)));
}

TEST(RandomStreamTest, BackwardDrawsFromTheStreamToo) {
  const auto noisy_gradient = [](uint64_t id) {
    at::Tensor leaf = at::ones({16}).requires_grad_();
    RandomStream stream(3, id);
    const RandomStreamGuard guard(stream);
    at::Tensor value = leaf * 2;
    value.register_hook([](at::Tensor gradient) { return gradient + at::rand({16}); });
    value.sum().backward();
    return leaf.grad();
  };
  const at::Tensor first = noisy_gradient(0);
  at::rand({3});
  EXPECT_TRUE(at::equal(first, noisy_gradient(0)));
  EXPECT_FALSE(at::equal(first, noisy_gradient(1)));
}

TEST(RandomStreamTest, TravelsWithThreadLocalState) {
  RandomStream stream(3, 0);
  const at::Tensor expected = draw_in(stream, 1, [] { return at::rand({9}); });
  stream.set_step(1);
  at::Tensor elsewhere;
  {
    const RandomStreamGuard guard(stream);
    const at::ThreadLocalState state;
    std::thread([&] {
      const at::ThreadLocalStateGuard scalar_state(state);
      elsewhere = at::rand({9});
    }).join();
  }
  EXPECT_TRUE(at::equal(expected, elsewhere));
}

TEST(RandomStreamTest, AnExplicitGeneratorIsRespected) {
  auto own = at::make_generator<at::CPUGeneratorImpl>(5);
  const at::Tensor expected = at::rand({9}, own);
  own.set_current_seed(5);
  RandomStream stream(3, 0);
  const RandomStreamGuard guard(stream);
  const at::Tensor before = at::rand({4});
  EXPECT_TRUE(at::equal(expected, at::rand({9}, own)));
  const at::Tensor after = at::rand({4});
  stream.set_step(0);
  EXPECT_TRUE(at::equal(before, at::rand({4})));
  EXPECT_TRUE(at::equal(after, at::rand({4}))) << "the explicit draw must not move the stream";
}

TEST(RandomStreamTest, NothingChangesOutsideTheGuard) {
  seed_default_generator(12);
  const at::Tensor expected = at::rand({9});
  seed_default_generator(12);
  {
    RandomStream outer(1, 1);
    const RandomStreamGuard guard(outer);
    at::rand({3});
  }
  EXPECT_TRUE(at::equal(expected, at::rand({9})));
}

TEST(RandomStreamTest, GuardsNest) {
  RandomStream outer(1, 1);
  RandomStream inner(1, 2);
  const at::Tensor expected = draw_in(outer, 0, [] { return at::rand({6}); });
  outer.set_step(0);
  const RandomStreamGuard guard(outer);
  const at::Tensor begin = at::rand({3});
  {
    const RandomStreamGuard nested(inner);
    at::rand({50});
  }
  EXPECT_TRUE(at::equal(expected, at::cat({begin, at::rand({3})})));
}

TEST(RandomStreamTest, WorksBelowAutogradAndOnSparseAndMetaTensors) {
  RandomStream stream(1, 1);
  const RandomStreamGuard guard(stream);
  const c10::InferenceMode inference;
  EXPECT_EQ(at::rand({3}).numel(), 3);
  EXPECT_EQ(at::randn({3}, at::device(at::kMeta)).numel(), 3);
  const at::Tensor sparse = at::eye(3).to_sparse();
  EXPECT_TRUE(at::equal((sparse + sparse).to_dense(), at::eye(3) * 2));
  EXPECT_TRUE(at::equal(at::matmul(sparse, at::eye(3)), at::eye(3)));
}

TEST(RandomStreamTest, DrawsAreWellSpread) {
  // 4096 (id, step) pairs: the mean of the first draws, and no two equal.
  std::vector<double> firsts;
  for (uint64_t id = 0; id < 64; ++id) {
    RandomStream stream(0, id);
    for (uint64_t step = 0; step < 64; ++step) {
      stream.set_step(step);
      auto generator = stream.generator();
      firsts.push_back(at::rand({1}, generator, at::kDouble).item<double>());
    }
  }
  const at::Tensor sorted = std::get<0>(at::tensor(firsts, at::kDouble).sort());
  EXPECT_NEAR(sorted.mean().item<double>(), 0.5, 0.02);
  EXPECT_NEAR(sorted.std().item<double>(), 0.2887, 0.01);
  EXPECT_GT(sorted.diff().min().item<double>(), 0.0);
}

TEST(RandomMaskTest, EveryInstructionSetDrawsTheSame) {
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{100003}}) {
    const at::Tensor expected = at::empty({size}, at::kFloat);
    mask_kernels(CpuIsa::kBaseline).f32(77, 1u << 30, size, expected.data_ptr<float>());
    for (int isa = 0; isa < kNumCpuIsas; ++isa) {
      if (!cpu_supports(static_cast<CpuIsa>(isa))) continue;
      const MaskKernels& kernels = mask_kernels(static_cast<CpuIsa>(isa));
      const at::Tensor single = at::empty({size}, at::kFloat);
      const at::Tensor twice = at::empty({size}, at::kDouble);
      const at::Tensor bytes = at::empty({size}, at::kByte);
      kernels.f32(77, 1u << 30, size, single.data_ptr<float>());
      kernels.f64(77, 1u << 30, size, twice.data_ptr<double>());
      kernels.u8(77, 1u << 30, size, bytes.data_ptr<uint8_t>());
      EXPECT_TRUE(at::equal(single, expected));
      EXPECT_TRUE(at::equal(twice.to(at::kFloat), expected));
      EXPECT_TRUE(at::equal(bytes.to(at::kFloat), expected));
    }
  }
}

/// The correlation of two 0/1 tensors in standard deviations of what independent ones show.
double correlation(const at::Tensor& a, const at::Tensor& b, double p) {
  const double n = static_cast<double>(a.numel());
  return ((a.to(at::kDouble) - p) * (b.to(at::kDouble) - p)).sum().item<double>() /
         (p * (1 - p) * std::sqrt(n));
}

TEST(RandomMaskTest, ElementsAreIndependentAndAsLikelyAsAsked) {
  RandomStream stream(5, 1);
  const RandomStreamGuard guard(stream);
  constexpr int64_t kSize = 1 << 18;
  for (const double p : {0.01, 0.25, 0.5, 0.9}) {
    SCOPED_TRACE(p);
    const at::Tensor first = at::empty({kSize}).bernoulli_(p);
    const at::Tensor second = at::empty({kSize}).bernoulli_(p);
    EXPECT_NEAR(first.mean().item<double>(), p, 4.5 * std::sqrt(p * (1 - p) / kSize));
    EXPECT_LT(std::abs(correlation(first, second, p)), 4.5);
    for (const int64_t lag : {1, 2, 3, 16, 64, 256, 1000, 4096}) {
      EXPECT_LT(std::abs(correlation(first.narrow(0, 0, kSize - lag),
                                     first.narrow(0, lag, kSize - lag), p)),
                4.5)
          << lag;
      EXPECT_LT(std::abs(correlation(first.narrow(0, 0, kSize - lag),
                                     second.narrow(0, lag, kSize - lag), p)),
                4.5)
          << lag;
    }
    stream.set_step(stream.step() + 1);
    EXPECT_LT(std::abs(correlation(first, at::empty({kSize}).bernoulli_(p), p)), 4.5)
        << "next step";
  }
}

TEST(RandomMaskTest, EveryDtypeLayoutAndProbabilityWorks) {
  RandomStream stream(5, 1);
  const RandomStreamGuard guard(stream);
  for (const auto dtype :
       {at::kFloat, at::kDouble, at::kBool, at::kByte, at::kLong, at::kHalf, at::kBFloat16}) {
    EXPECT_NEAR(at::empty({4096}, dtype).bernoulli_(0.3).to(at::kDouble).mean().item<double>(), 0.3,
                0.05)
        << dtype;
  }
  EXPECT_NEAR(at::zeros({64, 128}).narrow(1, 3, 60).bernoulli_(0.3).mean().item<double>(), 0.3,
              0.05);
  EXPECT_EQ(at::zeros({2, 3}).expand({2, 3}).t().clone().bernoulli_(1.0).sum().item<double>(), 6);
  EXPECT_EQ(at::ones({6}).bernoulli_(0.0).sum().item<double>(), 0);
  EXPECT_THROW(at::ones({6}).bernoulli_(1.5), c10::Error);
}

TEST(RandomStreamTest, BitsArePinned) {
  // A resumed run must draw the same bits under a later version: never change these numbers.
  RandomStream stream(42, 3);
  const RandomStreamGuard guard(stream);
  stream.set_step(1000);
  auto* generator = stream.generator().get<at::CPUGeneratorImpl>();
  EXPECT_EQ(generator->random(), 2053702972u);
  EXPECT_EQ(generator->random(), 987124676u);
  const at::Tensor mask = at::empty({32}, at::kDouble).bernoulli_(0.5);
  EXPECT_EQ(static_cast<int64_t>(mask.dot(at::pow(2, at::arange(32, at::kDouble))).item<double>()),
            443989686);
  EXPECT_EQ(stream.key(0), 10107930938513374843u);
}

}  // namespace
}  // namespace strata::tensor
