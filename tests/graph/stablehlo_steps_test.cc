// Whole training steps, compiled, against the same steps as they are written; replicas, random numbers, errors.
#include <torch/torch.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/host_call.h"
#include "graph/random_program.h"
#include "graph/stablehlo/compiled_graph.h"
#include "graph/stablehlo/trace_to_compile.h"
#include "pjrt/topology.h"
#include "support/expect_error.h"
#include "support/pjrt_plugin.h"

namespace strata::graph::stablehlo {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;
namespace nn = torch::nn;

constexpr int kSteps = 10;
constexpr double kStepTolerance = 1e-12;

/// A model with its state, and a step of its training.
struct Training {
  std::shared_ptr<nn::Module> module;
  std::function<Tensor(const Tensor&)> forward;
  std::function<void(const Tensors& parameters)> update = {};
  Tensors extra = {};  // of the optimizer

  Tensor step(const Tensor& x, const Tensor& y) const {
    const Tensor loss = nn::functional::cross_entropy(forward(x), y);
    const Tensors parameters = module->parameters();
    for (const Tensor& each : parameters) each.mutable_grad() = Tensor();
    loss.backward();
    update(parameters);
    return loss.detach();
  }
  Tensors state() const {
    Tensors all = module->parameters();
    for (const Tensor& each : module->buffers()) all.push_back(each);
    all.insert(all.end(), extra.begin(), extra.end());
    return all;
  }
};

using MakeTraining = std::function<Training()>;

template <typename Module>
Training with_momentum(Module module) {
  module->to(torch::kDouble);
  auto optimizer = std::make_shared<torch::optim::SGD>(
      module->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-3));
  return {.module = module.ptr(),
          .forward = [module](const Tensor& x) mutable { return module->forward(x); },
          .update = [optimizer](const Tensors&) { optimizer->step(); }};
}

Training mlp() {
  return with_momentum(nn::Sequential(nn::Flatten(), nn::Linear(64, 16), nn::ReLU(),
                                      nn::Linear(16, 8), nn::Tanh(), nn::Linear(8, 4)));
}

Training cnn() {
  return with_momentum(nn::Sequential(
      nn::Conv2d(nn::Conv2dOptions(1, 6, 3).padding(1)), nn::BatchNorm2d(6), nn::ReLU(),
      nn::MaxPool2d(2), nn::Conv2d(nn::Conv2dOptions(6, 6, 3).groups(3)), nn::BatchNorm2d(6),
      nn::ReLU(), nn::AvgPool2d(2), nn::Flatten(), nn::Linear(6, 4)));
}

Training decoder() {
  const auto narrow = nn::Conv2dOptions(1, 4, 3).stride(2).padding(1);
  const auto widen = nn::ConvTranspose2dOptions(4, 3, 3).stride(2).padding(1).output_padding(1);
  return with_momentum(nn::Sequential(nn::Conv2d(narrow), nn::GroupNorm(2, 4), nn::ReLU(),
                                      nn::ConvTranspose2d(widen), nn::SiLU(), nn::Flatten(),
                                      nn::Linear(192, 4)));
}

/// A class of the last step's output.
template <typename Layer>
struct SequenceClassifier : nn::Module {
  explicit SequenceClassifier(const Layer& layer)
      : layer(register_module("layer", layer)), head(register_module("head", nn::Linear(6, 4))) {}
  Tensor forward(const Tensor& x) {
    return head(std::get<0>(layer->forward(x.squeeze(1).transpose(0, 1)))[7]);
  }
  Layer layer;
  nn::Linear head;
};

template <typename Layer>
Training sequences(const Layer& layer) {
  using Module = SequenceClassifier<Layer>;
  return with_momentum(nn::ModuleHolder<Module>(std::make_shared<Module>(layer)));
}
Training lstm() { return sequences(nn::LSTM(8, 6)); }
Training gru() { return sequences(nn::GRU(8, 6)); }

struct AttentionClassifierImpl : nn::Module {
  AttentionClassifierImpl()
      : embedding(register_module("embedding", nn::Embedding(10, 8))),
        projection(register_module("projection", nn::Linear(8, 24))),
        norm(register_module("norm", nn::LayerNorm(nn::LayerNormOptions({8})))),
        up(register_module("up", nn::Linear(8, 16))),
        down(register_module("down", nn::Linear(16, 8))),
        head(register_module("head", nn::Linear(8, 4))) {}
  Tensor forward(const Tensor& x) {
    const Tensor tokens = (x.view({-1, 64}).slice(1, 0, 12).abs() * 4).clamp(0, 9).to(torch::kLong);
    const Tensor embedded = embedding(tokens);
    const Tensors parts = projection(embedded).view({-1, 12, 2, 12}).transpose(1, 2).chunk(3, -1);
    const Tensor attended = torch::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
    const Tensor mixed = norm(embedded + attended.transpose(1, 2).reshape({-1, 12, 8}));
    return head((mixed + down(torch::gelu(up(mixed)))).mean(1));
  }
  nn::Embedding embedding;
  nn::Linear projection;
  nn::LayerNorm norm;
  nn::Linear up, down, head;
};
TORCH_MODULE(AttentionClassifier);

/// With Adam (Kingma and Ba 2015), whose counter is a tensor.
Training attention() {
  AttentionClassifier module;
  module->to(torch::kDouble);
  Tensors means, squares;
  for (const Tensor& each : module->parameters()) {
    means.push_back(torch::zeros_like(each).detach());
    squares.push_back(torch::zeros_like(each).detach());
  }
  const Tensor count = torch::zeros({}, torch::kDouble);
  Training training{.module = module.ptr(),
                    .forward = [module](const Tensor& x) mutable { return module->forward(x); }};
  training.update = [means, squares, count](const Tensors& parameters) {
    const torch::NoGradGuard no_grad;
    count.add_(1);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor& gradient = parameters[i].grad();
      means[i].lerp_(gradient, 0.1);
      squares[i].mul_(0.999).addcmul_(gradient, gradient, 0.001);
      const Tensor mean = means[i] / (1 - torch::pow(0.9, count));
      const Tensor root = (squares[i] / (1 - torch::pow(0.999, count))).sqrt() + 1e-3;
      parameters[i].sub_(mean / root * 0.01);
    }
  };
  training.extra = means;
  training.extra.insert(training.extra.end(), squares.begin(), squares.end());
  training.extra.push_back(count);
  return training;
}

Training made(const MakeTraining& make) {
  torch::manual_seed(11);
  return make();
}

Tensor images() { return torch::randn({6, 1, 8, 8}, torch::kDouble); }
Tensor labels() { return torch::randint(4, {6}); }

double largest_difference(const Tensors& a, const Tensors& b) {
  double largest = 0;
  EXPECT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const Tensor distance = (a[i].detach() - b[i].detach()).abs().to(torch::kDouble);
    largest = std::max(largest, distance.max().item<double>());
  }
  return largest;
}

std::shared_ptr<const Trace> trace_of(const Training& training, const Tensor& x, const Tensor& y) {
  return trace_to_compile("train_step", {x, y}, [&](const Tensors& inputs) {
    return Tensors{training.step(inputs[0], inputs[1])};
  });
}

struct Model {
  std::string name;
  MakeTraining make;
};

class StablehloStepsTest : public testing::TestWithParam<Model> {};

TEST_P(StablehloStepsTest, TrainsAsTheStepThatIsWritten) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const Training eager = made(GetParam().make), compiled = made(GetParam().make);
  torch::manual_seed(3);
  const Tensor first = images(), first_labels = labels();
  eager.step(first, first_labels);
  compiled.step(first, first_labels);  // makes the optimizer's state
  ASSERT_EQ(largest_difference(eager.state(), compiled.state()), 0);
  CompiledGraph graph(trace_of(compiled, first, first_labels), test::pjrt_client());
  for (int step = 0; step < kSteps; ++step) {
    const Tensor x = images(), y = labels();
    const Tensor expected = eager.step(x, y);
    const Tensor loss = graph.run({{x, y}})[0][0];
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), kStepTolerance) << "step " << step;
  }
  graph.pull();
  EXPECT_LT(largest_difference(eager.state(), compiled.state()), kStepTolerance);
}

TEST_P(StablehloStepsTest, MakesSeveralStepsARun) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const Training eager = made(GetParam().make), compiled = made(GetParam().make);
  torch::manual_seed(3);
  Tensors xs, ys, losses;
  for (int step = 0; step <= kSteps; ++step) {
    xs.push_back(images());
    ys.push_back(labels());
    losses.push_back(eager.step(xs.back(), ys.back()));
  }
  compiled.step(xs[0], ys[0]);
  CompiledGraph graph(trace_of(compiled, xs[0], ys[0]), test::pjrt_client(),
                      {.steps_per_run = kSteps / 2});
  for (int run = 0; run < 2; ++run) {
    const auto part = [&](const Tensors& all) {
      return torch::stack(all).slice(0, 1 + run * kSteps / 2, 1 + (run + 1) * kSteps / 2);
    };
    const Tensor got = graph.run({{part(xs), part(ys)}})[0][0];
    EXPECT_TRUE(torch::allclose(got, part(losses), kStepTolerance, kStepTolerance));
  }
  graph.pull();
  EXPECT_LT(largest_difference(eager.state(), compiled.state()), kStepTolerance);
}

INSTANTIATE_TEST_SUITE_P(Models, StablehloStepsTest,
                         testing::Values(Model{"mlp", mlp}, Model{"cnn", cnn},
                                         Model{"decoder", decoder}, Model{"lstm", lstm},
                                         Model{"gru", gru}, Model{"attention", attention}),
                         [](const auto& each) { return each.param.name; });

/// The TPU's own compiler, which needs no TPU: STRATA_LIBTPU names libtpu.so.
TEST_P(StablehloStepsTest, IsAcceptedByTheCompilerForTpus) {
  const char* const libtpu = std::getenv("STRATA_LIBTPU");  // NOLINT(concurrency-mt-unsafe)
  if (libtpu == nullptr) {
    GTEST_SKIP() << "needs libtpu.so: pip install libtpu, STRATA_LIBTPU=.../libtpu.so and "
                    "TPU_SKIP_MDS_QUERY=1";
  }
  // With oneDNN libtorch has an operator for LSTMs in float32 that is no composition of others.
  auto& libtorch = at::globalContext();
  const bool one_dnn = libtorch.userEnabledMkldnn();
  libtorch.setUserEnabledMkldnn(false);
  const Training training = made(GetParam().make);
  training.module->to(torch::kFloat);
  for (const Tensor& each : training.extra) each.set_data(each.to(torch::kFloat));
  const Tensor x = images().to(torch::kFloat), y = labels();
  training.step(x, y);
  const auto trace = trace_of(training, x, y);
  libtorch.setUserEnabledMkldnn(one_dnn);
  for (const char* topology : {"v4:2x2x1", "v5e:2x4", "v5p:2x2x1", "v6e:2x4"}) {
    const pjrt::Topology devices(pjrt::Plugin::open(libtpu), topology);
    for (const int64_t steps : {1, 5}) {
      const std::string program = lower(*trace, {.num_replicas = 2, .steps_per_run = steps}).text;
      EXPECT_GT(devices.compile(program, 2).size(), 1000) << topology << ", " << steps << " steps";
    }
  }
}

TEST(StablehloStateTest, GoesToDevicesAgainAfterAPush) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const Tensor weight = torch::ones({2, 3}, torch::kDouble);
  const auto trace =
      trace_to_compile("count", {torch::ones({3}, torch::kDouble)}, [&](const Tensors& x) {
        weight.t().select(0, 1).add_(x[0].sum());
        return Tensors{weight * 1};
      });
  CompiledGraph graph(trace, test::pjrt_client());
  const Tensors x = {torch::tensor({1., 2., 3.}, torch::kDouble)};
  graph.run({x});
  graph.run({x});
  EXPECT_TRUE(weight.equal(torch::ones_like(weight)));  // until a pull
  graph.pull();
  EXPECT_TRUE(weight.equal(torch::tensor({{1., 13., 1.}, {1., 13., 1.}}, torch::kDouble)));
  weight.fill_(5);
  graph.push();
  EXPECT_TRUE(
      graph.run({x})[0][0].equal(torch::tensor({{5., 11., 5.}, {5., 11., 5.}}, torch::kDouble)));
}

TEST(StablehloStateTest, GradientsAreResults) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const Tensor weight = torch::randn({3}, torch::kDouble).requires_grad_();
  const auto step = [&](const Tensors& x) {
    (weight * x[0]).square().sum().backward();
    return Tensors{};
  };
  const Tensors x = {torch::randn({3}, torch::kDouble)};
  CompiledGraph graph(trace_to_compile("gradients", x, step), test::pjrt_client());
  EXPECT_FALSE(weight.grad().defined());
  graph.run({x});
  step(x);
  ASSERT_EQ(graph.gradients().size(), 1);
  EXPECT_TRUE(torch::allclose(graph.gradients()[0], weight.grad(), kStepTolerance, kStepTolerance));
}

/// A sum over replicas as runtime's all_reduce records it.
Tensor all_reduced(const Tensor& value, double operation) {
  return call_host("strata::all_reduce", {value}, {{value.sizes().vec(), value.scalar_type()}},
                   [](const Tensors& values) { return values; }, {operation})[0];
}

TEST(StablehloReplicasTest, MeetInSumsAndStayEqual) {
  STRATA_NEEDS_PJRT_PLUGIN();
  constexpr int64_t kReplicas = 4;
  const Tensor weight = torch::randn({3}, torch::kDouble), before = weight.clone();
  const auto trace =
      trace_to_compile("replicas", {torch::ones({3}, torch::kDouble)}, [&](const Tensors& x) {
        weight.sub_(all_reduced(weight * x[0], 1), 0.1);
        return Tensors{all_reduced(x[0], 0), all_reduced(x[0], 2), all_reduced(x[0], 3),
                       weight * 1};
      });
  CompiledGraph graph(trace, test::pjrt_client(), {.num_replicas = kReplicas});
  std::vector<Tensors> inputs;
  for (int64_t r = 0; r < kReplicas; ++r) inputs.push_back({torch::randn({3}, torch::kDouble)});
  const auto results = graph.run(inputs);
  Tensors all;
  for (const Tensors& each : inputs) all.push_back(each[0]);
  const Tensor x = torch::stack(all);
  for (const Tensors& each : results) {
    EXPECT_TRUE(torch::allclose(each[0], x.sum(0), kStepTolerance, kStepTolerance));
    EXPECT_TRUE(each[1].equal(x.amin(0)));
    EXPECT_TRUE(each[2].equal(x.amax(0)));
    EXPECT_TRUE(each[3].equal(results[0][3]));
  }
  graph.pull();
  EXPECT_TRUE(
      torch::allclose(weight, before - 0.1 * (before * x).mean(0), kStepTolerance, kStepTolerance));
}

TEST(StablehloRandomTest, NumbersHaveTheirDistributionsAndChange) {
  STRATA_NEEDS_PJRT_PLUGIN();
  constexpr int64_t kCount = 20000;
  const auto options = torch::TensorOptions(torch::kDouble);
  const auto trace = trace_to_compile("random", {}, [&](const Tensors&) {
    return Tensors{torch::rand({kCount}, options),
                   torch::randn({kCount}),
                   torch::empty({kCount}, options).uniform_(2, 4),
                   torch::empty({kCount}, options).normal_(3, 2),
                   torch::empty({kCount}, options).exponential_(2),
                   torch::empty({kCount}, options).bernoulli_(0.3),
                   torch::bernoulli(torch::full({kCount}, 0.3, options)),
                   torch::dropout(torch::ones({kCount}, options), 0.3, true),
                   std::get<0>(torch::native_dropout(torch::ones({kCount}, options), 0.3, true)),
                   torch::randint(10, {kCount}).to(torch::kDouble),
                   torch::randint(5, 15, {kCount}).to(torch::kDouble),
                   torch::rand_like(torch::ones({kCount}, options)),
                   torch::randn_like(torch::ones({kCount}, options)),
                   torch::empty({kCount}, options).random_(10),
                   torch::empty({kCount}, options).random_(5, 15),
                   std::get<0>(torch::randperm(kCount).sort()).to(torch::kDouble)};
  });
  struct Moments {
    double mean, deviation;
  };
  const double tenth = std::sqrt(99.0 / 12), thinned = std::sqrt(0.3 / 0.7);
  const std::vector<Moments> expected = {{0.5, std::sqrt(1.0 / 12)},
                                         {0, 1},
                                         {3, std::sqrt(4.0 / 12)},
                                         {3, 2},
                                         {0.5, 0.5},
                                         {0.3, 0.4583},
                                         {0.3, 0.4583},
                                         {1, thinned},
                                         {1, thinned},
                                         {4.5, tenth},
                                         {9.5, tenth},
                                         {0.5, std::sqrt(1.0 / 12)},
                                         {0, 1},
                                         {4.5, tenth},
                                         {9.5, tenth},
                                         {9999.5, 5773.6}};
  CompiledGraph graph(trace, test::pjrt_client(), {.num_replicas = 2, .seed = 5});
  const auto results = graph.run({{}, {}});
  const Tensors second = graph.run({{}, {}})[0];
  for (size_t i = 0; i < expected.size(); ++i) {
    const Tensor x = results[0][i].to(torch::kDouble);
    const double error = 5 * expected[i].deviation / std::sqrt(kCount);  // 5 standard errors
    EXPECT_NEAR(x.mean().item<double>(), expected[i].mean, error) << i;
    EXPECT_NEAR(x.std().item<double>(), expected[i].deviation, 4 * error) << i;
    if (i + 1 == expected.size()) {  // a permutation
      EXPECT_TRUE(x.equal(torch::arange(kCount, options)));
      continue;
    }
    EXPECT_FALSE(second[i].equal(results[0][i])) << i;
    EXPECT_FALSE(results[1][i].equal(results[0][i])) << i;
  }
  CompiledGraph again(trace, test::pjrt_client(), {.num_replicas = 2, .seed = 5});
  EXPECT_TRUE(again.run({{}, {}})[0][0].equal(results[0][0]));
}

/// As replays are tested, but for the bits, and without random numbers.
TEST(StablehloRandomProgramsTest, ComputeWhatTheyAreWritten) {
  STRATA_NEEDS_PJRT_PLUGIN();
  constexpr uint32_t kPrograms = 45;
  constexpr double kLoose = 1e-9;  // of twelve operators in a row, powers and divisions among them
  for (uint32_t seed = 0; seed < kPrograms; ++seed) {
    const test::RandomProgramOptions options{.dtype = torch::kDouble, .draws = false};
    test::RandomProgram eager(seed, options), traced(seed, options);
    const Tensor shape = torch::zeros({4, 4}, torch::kDouble);
    CompiledGraph graph(
        trace_to_compile("program", {shape}, [&](const Tensors& x) { return traced(x[0]); }),
        test::pjrt_client());
    torch::manual_seed(seed + 1);
    for (int step = 0; step < 3; ++step) {
      const Tensor x = torch::randn({4, 4}, torch::kDouble);
      const Tensors expected = eager(x), got = graph.run({{x}})[0];
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_TRUE(torch::allclose(got[i], expected[i], kLoose, kLoose, /*equal_nan=*/true))
            << "seed " << seed << ", step " << step << ", value " << i;
      }
    }
    graph.pull();
    const Tensors expected = eager.all_state(), got = traced.all_state();
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(torch::allclose(got[i], expected[i], kLoose, kLoose, true)) << "seed " << seed;
    }
  }
}

TEST(StablehloErrorsTest, NameTheNode) {
  const Tensor x = torch::randn({3, 3}, torch::kDouble);
  const auto lowered = [&](const std::function<Tensor(const Tensor&)>& function) {
    return [&x, function] {
      lower(*trace_to_compile("step", {x},
                              [&](const Tensors& inputs) { return Tensors{function(inputs[0])}; }));
    };
  };
  // Then the place (places_test.cc), and then:
  const auto inverse = lowered([](const Tensor& each) { return torch::linalg_inv(each); });
  expect_error_containing(inverse, ErrorCode::kUnimplemented,
                          "[stablehlo] step: node 0 (aten::linalg_inv_ex, Double [3, 3]; ");
  expect_error_containing(inverse, ErrorCode::kUnimplemented,
                          ") has no rule, so that strata cannot compile it; write this part of the "
                          "step with other operators, or run it as it is written");
  const auto rounded = lowered([](const Tensor& each) { return each.round(2); });
  expect_error_containing(rounded, ErrorCode::kUnimplemented,
                          "node 0 (aten::round.decimals, Double [3, 3]; ");
  expect_error_containing(rounded, ErrorCode::kUnimplemented,
                          ") has decimals, which strata has no StableHLO for");
  expect_error_containing(lowered([](const Tensor& each) { return each.add_(1); }),
                          ErrorCode::kUnimplemented, "it writes its input 0");
  const auto host = lowered([](const Tensor& each) {
    return call_host("strata::barrier", {each}, {{{3, 3}, at::kDouble}},
                     [](const Tensors& values) { return values; })[0];
  });
  expect_error_containing(host, ErrorCode::kUnimplemented,
                          "node 0 (strata::barrier, Double [3, 3]; ");
  expect_error_containing(host, ErrorCode::kUnimplemented,
                          ") is a function of the host and has no rule");
}

TEST(StablehloErrorsTest, InputsMustHaveTheTracesSizes) {
  STRATA_NEEDS_PJRT_PLUGIN();
  const Tensor x = torch::randn({3}, torch::kDouble);
  CompiledGraph graph(
      trace_to_compile("step", {x}, [](const Tensors& in) { return Tensors{in[0] * 2}; }),
      test::pjrt_client());
  expect_error([&] { graph.run({{torch::randn({4}, torch::kDouble)}}); },
               "[stablehlo] run: step: got an input 0 of Double [4]; expected Double [3], as the "
               "step was traced with; pad a smaller batch, or trace it again");
  expect_error(
      [&] {
        graph.run({{x}, {x}});
      },
      "[stablehlo] run: step: got inputs for 2 replicas; expected 1");
  expect_error([&] { graph.run({{}}); }, "[stablehlo] run: step: got 0 inputs; expected 1");
}

}  // namespace
}  // namespace strata::graph::stablehlo
