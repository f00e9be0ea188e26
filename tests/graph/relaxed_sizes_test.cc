// One graph for all sizes of first dimensions: what calls of sizes that were never seen do is what the function
// does, without running it.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/random_program.h"
#include "graph/size_number.h"
#include "strata/graph/function.h"
#include "strata/graph/graph.h"
#include "strata/tensor/fingerprint.h"
#include "support/log_lines.h"
#include "support/replicas.h"
#include "tensor/random_streams.h"

namespace strata::relaxed_sizes {  // other tests have modules of the same names
namespace {

using at::Tensor;

/// A function's options.
FunctionOptions relaxed(const std::string& name = "step") {
  return {.name = name, .reduce_retracing = true};
}

struct AttentionImpl : torch::nn::Module {
  AttentionImpl() {
    register_module("embedding", embedding);
    register_module("attention", attention);
    register_module("head", head);
  }
  Tensor forward(const Tensor& words) {
    const Tensor x = embedding(words).transpose(0, 1);  // [time, batch, 16]
    return head(std::get<0>(attention(x, x, x)).mean(0));
  }
  torch::nn::Embedding embedding{20, 16};
  torch::nn::MultiheadAttention attention{torch::nn::MultiheadAttentionOptions(16, 4).dropout(0.1)};
  torch::nn::Linear head{16, 5};
};
TORCH_MODULE(Attention);

struct LstmImpl : torch::nn::Module {
  LstmImpl() {
    register_module("lstm", lstm);
    register_module("head", head);
  }
  Tensor forward(const Tensor& x) { return head(std::get<0>(lstm(x)).select(1, -1)); }
  torch::nn::LSTM lstm{torch::nn::LSTMOptions(12, 16).batch_first(true)};
  torch::nn::Linear head{16, 5};
};
TORCH_MODULE(Lstm);

torch::nn::Sequential mlp() {
  return torch::nn::Sequential(torch::nn::Linear(12, 16), torch::nn::ReLU(),
                               torch::nn::Dropout(0.3), torch::nn::Linear(16, 5));
}

torch::nn::Sequential cnn() {
  return torch::nn::Sequential(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1)), torch::nn::BatchNorm2d(8),
      torch::nn::ReLU(), torch::nn::MaxPool2d(2), torch::nn::Conv2d(8, 8, 3), torch::nn::ReLU(),
      torch::nn::AdaptiveAvgPool2d(1), torch::nn::Flatten(), torch::nn::Linear(8, 5));
}

/// Of batches of a fit: full ones, then a smaller one; then of 20 sizes at random, all different ones first.
std::vector<int64_t> batch_sizes() {
  std::vector<int64_t> sizes = {24, 24, 24, 7, 24, 24, 24, 7};
  std::mt19937 random(3);
  for (int i = 0; i < 20; ++i) sizes.push_back(static_cast<int64_t>(2 + random() % 23));
  return sizes;
}

struct Trained {
  std::string hash;        // of weights, buffers and losses
  std::vector<int> calls;  // of the function's code, after each batch
  int64_t graphs = 0;
};

template <typename Module>
Trained train(const std::function<Module()>& make, const std::function<Tensor(int64_t)>& input,
              bool as_function, bool in_replica) {
  torch::set_num_threads(1);  // of so little work
  torch::manual_seed(7);
  Module module = make();
  torch::optim::SGD optimizer(module->parameters(),
                              torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.01));
  int calls = 0;
  const auto step = [&](const Tensor& x, const Tensor& y) {
    ++calls;
    optimizer.zero_grad();
    const Tensor loss = torch::nn::functional::cross_entropy(module->forward(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  };
  const auto traced = function(step, relaxed());
  Trained trained;
  std::vector<Tensor> results;
  tensor::RandomStream stream(11, 0);
  uint64_t number = 0;
  for (const int64_t rows : batch_sizes()) {
    const Tensor x = input(rows), y = torch::randint(0, 5, {rows});
    std::optional<tensor::RandomStreamGuard> guard;
    stream.set_step(number++);
    if (in_replica) guard.emplace(stream);
    results.push_back((as_function ? traced(x, y) : step(x, y)).detach().clone());
    trained.calls.push_back(calls);
  }
  for (const Tensor& parameter : module->parameters()) results.push_back(parameter.detach());
  for (const Tensor& buffer : module->buffers()) results.push_back(buffer);
  trained.hash = tensor::fingerprint(results);
  trained.graphs = traced.tracing_count();
  return trained;
}

/// @param only_in_replicas  The graph for all sizes.
template <typename Module>
void expect_one_graph(const std::function<Module()>& make,
                      const std::function<Tensor(int64_t)>& input, bool only_in_replicas = false) {
  for (const bool in_replica : {false, true}) {
    const Trained eager = train<Module>(make, input, false, in_replica);
    const Trained traced = train<Module>(make, input, true, in_replica);
    EXPECT_EQ(traced.hash, eager.hash) << (in_replica ? "in a replica" : "without a replica");
    if (only_in_replicas && !in_replica) continue;
    EXPECT_EQ(traced.graphs, 2);  // of the first size, and of all
    // It does not run once the second size was seen, the fourth batch.
    EXPECT_EQ(traced.calls.back(), traced.calls[3]);
  }
}

TEST(RelaxedSizesTest, Mlp) {
  expect_one_graph<torch::nn::Sequential>(mlp, [](int64_t n) { return torch::randn({n, 12}); });
}

TEST(RelaxedSizesTest, CnnWithBatchNormalization) {
  expect_one_graph<torch::nn::Sequential>(cnn, [](int64_t n) {
    return torch::randn({n, 3, 10, 10});
  });
}

TEST(RelaxedSizesTest, Lstm) {
  // libtorch's own kernel has a workspace whose size is no function of the batch that is known here.
  expect_one_graph<Lstm>([] { return Lstm(); },
                         [](int64_t n) {
                           return torch::randn({n, 7, 12});
                         },
                         /*only_in_replicas=*/true);
}

TEST(RelaxedSizesTest, Attention) {
  expect_one_graph<Attention>([] { return Attention(); },
                              [](int64_t n) {
                                return torch::randint(0, 20, {n, 9});
                              });
}

/// Calls `fn` as a function and as it is with sizes; results have to be the same.
template <typename Fn>
int64_t expect_same(const Fn& fn, const std::vector<int64_t>& sizes) {
  const auto traced = function(fn, relaxed("fn"));
  for (const int64_t rows : sizes) {
    const Tensor x = torch::randn({rows, 5});
    EXPECT_TRUE(traced(x).equal(fn(x))) << rows;
  }
  return traced.tracing_count();
}

TEST(RelaxedSizesTest, NumbersOfManyForms) {
  const std::vector<int64_t> sizes = {8, 6, 12, 7, 3, 11, 9, 2, 10, 12};
  int calls = 0;
  const auto fn = [&](const Tensor& x) {
    ++calls;
    const int64_t n = x.size(0);
    const Tensor mean = (x * x).mean() + x.sum() / n + x.sum() * (1.0 / static_cast<double>(n)) +
                        x.sum() * (0.5F / static_cast<float>(n)) +
                        x.sum() * static_cast<double>(3 * n - 1);
    const Tensor square = x.matmul(x.t()).reshape({n * n});  // strides and sizes of n * n
    const Tensor parts = torch::cat({x.slice(0, 1, n - 1), x.narrow(0, n - 2, 2)}, 0).sum(1);
    const Tensor numbers = torch::arange(n) + torch::full({n}, static_cast<double>(n));
    Tensor buffer = torch::empty({n + 1});
    buffer.slice(0, 0, n).copy_(parts);
    buffer.slice(0, n).fill_(1);
    return std::vector<Tensor>{mean, square, parts, numbers, buffer};
  };
  const auto traced = function(fn, relaxed("forms"));
  for (const int64_t rows : sizes) {
    const Tensor x = torch::randn({rows, 5});
    const std::vector<Tensor> results = traced(x), expected = fn(x);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(results[i].equal(expected[i])) << "result " << i << " of " << rows;
    }
  }
  EXPECT_EQ(traced.tracing_count(), 1);
  // Of the first two and the largest size as written, seven recordings, and the expectations; and of size 2,
  // where a slice of no elements makes it another graph.
  EXPECT_EQ(calls, 3 + 7 + 1 + static_cast<int>(sizes.size()));
}

TEST(RelaxedSizesTest, ANumberOfNoKnownFormRunsAsWritten) {
  test::LogLines lines;
  const auto fn = [](const Tensor& x) {
    return x * (1 / std::sqrt(static_cast<double>(x.size(0))));
  };
  EXPECT_EQ(expect_same(fn, {8, 6, 5, 7, 3, 6, 6}), 0);
  const std::string line = lines.await({"[function] fn: calls with other first dimensions"});
  EXPECT_NE(line.find("aten::mul"), std::string::npos) << line;
}

TEST(RelaxedSizesTest, ControlFlowByTheSize) {
  // The sizes on this side of a condition have a graph, those beyond run as they are written.
  const auto fn = [](const Tensor& x) { return x.size(0) > 9 ? x * 2 : x + 1; };
  EXPECT_EQ(expect_same(fn, {8, 6, 5, 7, 12, 3, 11, 10, 9, 2, 16, 8}), 1);
  const auto odd = [](const Tensor& x) { return x.size(0) % 2 == 1 ? x * 2 : x + 1; };
  EXPECT_EQ(expect_same(odd, {8, 6, 5, 7, 12, 3, 11, 10, 9, 2, 16, 8}), 1);
  const auto capped = [](const Tensor& x) {
    return x.slice(0, 0, std::min<int64_t>(x.size(0), 4)).clone();
  };
  EXPECT_EQ(expect_same(capped, {8, 6, 5, 7, 12, 3, 11, 10, 9, 2, 16, 8}), 1);
}

TEST(RelaxedSizesTest, SizesZeroAndOneHaveTheirOwn) {
  int calls = 0;
  const auto fn = [&](const Tensor& x) {
    ++calls;
    return (x + torch::ones({x.size(0), 1})).cumsum(0);
  };
  const auto traced = function(fn, relaxed());
  for (int i = 0; i < 4; ++i) {
    for (const int64_t rows : {1, 0, 5, 9, 1, 0, 6, 7}) {
      const Tensor x = torch::randn({rows, 5});
      const int before = calls;
      const Tensor expected = fn(x);
      calls = before;
      EXPECT_TRUE(traced(x).equal(expected)) << rows;
    }
  }
  EXPECT_EQ(traced.tracing_count(), 3);  // 0, 1, and all others
  EXPECT_EQ(calls, 4 + 4 + 1 + 1 + 6);
}

TEST(RelaxedSizesTest, SeveralSizes) {
  int calls = 0;
  const auto fn = [&](const Tensor& x, const Tensor& y) {
    ++calls;
    if (x.size(0) == y.size(0)) return torch::cat({x + y, x}, 0);
    return x.matmul(y.t()).reshape({x.size(0) * y.size(0)}) + torch::cat({x, y}).mean();
  };
  const auto traced = function(fn, relaxed());
  std::mt19937 random(5);
  int after = 0;
  for (int i = 0; i < 120; ++i) {
    const auto n = static_cast<int64_t>(2 + random() % 9),
               m = static_cast<int64_t>(2 + random() % 9);
    const Tensor x = torch::randn({n, 5}), y = torch::randn({i % 3 == 0 ? n : m, 5});
    const int before = calls;
    const Tensor expected = fn(x, y);
    calls = before;
    EXPECT_TRUE(traced(x, y).equal(expected)) << n << " and " << m;
    if (i == 59) after = calls;
  }
  EXPECT_EQ(traced.tracing_count(), 2);
  EXPECT_EQ(calls, after);
}

TEST(RelaxedSizesTest, ADimensionThatStaysIsNoSymbol) {
  const auto fn = [](const Tensor& x, const Tensor& table) {
    return x.matmul(table.view({4, 5}).t());  // 20 is a number of the program
  };
  const auto traced = function(fn, relaxed());
  const Tensor table = torch::randn({20});
  for (const int64_t rows : {8, 6, 7, 3, 8, 5}) {
    const Tensor x = torch::randn({rows, 5});
    EXPECT_TRUE(traced(x, table).equal(fn(x, table)));
  }
  EXPECT_EQ(traced.tracing_count(), 1);
}

TEST(RelaxedSizesTest, ResultsThatAreNumbersOfTheSize) {
  const auto traced =
      function([](const Tensor& x) { return std::pair(x * 2, x.size(0)); }, relaxed());
  for (const int64_t rows : {8, 6, 7, 3, 5, 8, 6}) {
    EXPECT_EQ(traced(torch::randn({rows, 5})).second, rows);
  }
  EXPECT_EQ(traced.tracing_count(), 1);  // of the first size
}

TEST(RelaxedSizesTest, PlansAreLimited) {
  int calls = 0;
  const auto traced = function(
      [&](const Tensor& x) {
        ++calls;
        return x * 2;
      },
      {.reduce_retracing = true, .max_graphs = 3});
  for (const int64_t rows : {16, 4, 5, 6, 7, 8, 9}) traced(torch::ones({rows}));
  const int before = calls;
  for (const int64_t rows : {16, 4, 5, 6, 7, 8, 9}) {
    EXPECT_TRUE(traced(torch::ones({rows})).equal(torch::full({rows}, 2.0)));
  }
  EXPECT_EQ(calls, before);
  EXPECT_EQ(traced.graphs().size(), 3U);
  EXPECT_EQ(traced.tracing_count(), 1);
}

TEST(RelaxedSizesTest, ThreadsTakeTurns) {
  const auto traced = function(
      [](const Tensor& x) { return (x * 2 + static_cast<double>(x.size(0))).sum(1); }, relaxed());
  on_threads(4, [&](int thread) {
    std::mt19937 random(static_cast<uint32_t>(thread));
    for (int i = 0; i < 50; ++i) {
      const auto rows = static_cast<int64_t>(2 + random() % 20);
      const Tensor x = torch::full({rows, 3}, thread);
      EXPECT_TRUE(
          traced(x).equal(torch::full({rows}, 3.0 * static_cast<double>(2 * thread + rows))));
    }
  });
}

TEST(SizeNumberTest, FormsAreRefuted) {
  using graph::NumberType;
  graph::SizeNumber square({.base = {4}, .others = {2}}, NumberType::kInteger, 16, {4});
  EXPECT_FALSE(square.at({6}).has_value());  // 36, or 28
  EXPECT_TRUE(square.agrees({3}, 9));
  EXPECT_EQ(square.at({6}), 36);
  EXPECT_FALSE(square.agrees({5}, 24));
  graph::SizeNumber half({.base = {8}, .others = {6}}, NumberType::kInteger, 4, {3});
  EXPECT_EQ(half.at({2}), 1);
  EXPECT_FALSE(half.at({3}).has_value());
  graph::SizeNumber third({.base = {8}, .others = {6}}, NumberType::kDouble, 3.0 / 8, {3.0 / 6});
  EXPECT_TRUE(third.agrees({7}, 3.0 / 7));
  EXPECT_EQ(third.at({11}), 3.0 / 11);
  const graph::SizeNumber single({.base = {3}, .others = {7}}, NumberType::kFloat, 1.0F / 3,
                                 {1.0F / 7});
  EXPECT_EQ(single.at({11}), 1.0F / 11);
  const graph::SizeNumber tenth({.base = {3}, .others = {7}}, NumberType::kDouble, 0.1 / 3,
                                {0.1 / 7});
  EXPECT_FALSE(tenth.is_known());  // many numbers c have c / 3 and c / 7 with these bits
  const graph::SizeNumber product({.base = {3, 5}, .others = {4, 7}}, NumberType::kInteger, 30,
                                  {40, 42});
  EXPECT_FALSE(product.at({2, 2}).has_value());  // a product, or a sum
}

/// A random program on each of the matrices in `x`.
TEST(RelaxedSizesTest, RandomPrograms) {
  torch::set_num_threads(1);
  int one_graph = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    test::RandomProgram eager(seed), traced(seed);
    // A copy of the program, which keeps no tensor of the call.
    const auto on_sum = [](test::RandomProgram program, const Tensor& x) {
      std::vector<Tensor> results = program(x.mean(0) + x.sum(0) / x.size(0));
      const Tensor back = x * results.back().to(x.scalar_type()) / (x.size(0) + 1);
      results.push_back(back);
      results.push_back(back.flip(0).cumsum(0).reshape({x.size(0) * 16}));
      return results;
    };
    const auto run = [&](test::RandomProgram& program, const auto& step) {
      torch::manual_seed(seed + 1);
      std::vector<Tensor> results;
      for (const int64_t rows : {9, 5, 7, 2, 8, 6, 3, 1, 9, 11, 10}) {
        for (const Tensor& result : step(torch::randn({rows, 4, 4}))) results.push_back(result);
      }
      for (const Tensor& tensor : program.all_state()) results.push_back(tensor);
      return tensor::fingerprint(results);
    };
    const auto step = function([&](const Tensor& x) { return on_sum(traced, x); }, relaxed());
    const std::string expected = run(eager, [&](const Tensor& x) { return on_sum(eager, x); });
    ASSERT_EQ(run(traced, step), expected) << "seed " << seed;
    if (step.tracing_count() == 1) ++one_graph;
    for (const auto& graph : step.graphs()) check(*graph);
  }
  EXPECT_EQ(one_graph, 40);
}

}  // namespace
}  // namespace strata::relaxed_sizes
