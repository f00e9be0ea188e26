// strata::function on one thread: what replays do is what the function does.
#include "strata/graph/function.h"
#include "strata/graph/graph.h"

#include <torch/torch.h>

#include <any>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "strata/core/error.h"
#include "strata/tensor/fingerprint.h"
#include "support/log_lines.h"
#include "support/replicas.h"
#include "tensor/random_streams.h"

namespace strata {
namespace {

using at::Tensor;

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

struct LstmImpl : torch::nn::Module {
  LstmImpl()
      : lstm(register_module("lstm",
                             torch::nn::LSTM(torch::nn::LSTMOptions(12, 16).batch_first(true)))),
        head(register_module("head", torch::nn::Linear(16, 5))) {}
  Tensor forward(const Tensor& x) { return head(std::get<0>(lstm(x)).select(1, -1)); }
  torch::nn::LSTM lstm;
  torch::nn::Linear head;
};
TORCH_MODULE(Lstm);

struct TransformerImpl : torch::nn::Module {
  TransformerImpl()
      : embedding(register_module("embedding", torch::nn::Embedding(20, 16))),
        layer(register_module(
            "layer",
            torch::nn::TransformerEncoderLayer(
                torch::nn::TransformerEncoderLayerOptions(16, 2).dim_feedforward(32).activation(
                    torch::kGELU)))),
        head(register_module("head", torch::nn::Linear(16, 5))) {}
  Tensor forward(const Tensor& words) { return head(layer(embedding(words)).mean(0)); }
  torch::nn::Embedding embedding;
  torch::nn::TransformerEncoderLayer layer;
  torch::nn::Linear head;
};
TORCH_MODULE(Transformer);

struct Batch {
  Tensor x;
  Tensor y;
};

// Trains a new module with `run`, which gets the step; returns the hash of its weights and losses.
template <typename Module, typename Make, typename Wrap>
std::string train(const Make& make, const std::vector<Batch>& batches, const Wrap& wrap,
                  bool in_replica) {
  torch::manual_seed(7);
  Module module = make();
  torch::optim::SGD optimizer(module->parameters(),
                              torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.01));
  const auto step = [&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    const Tensor loss = torch::nn::functional::cross_entropy(module->forward(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  };
  auto run = wrap(step);
  std::vector<Tensor> results;
  tensor::RandomStream stream(11, 0);
  uint64_t number = 0;
  for (const Batch& batch : batches) {
    std::optional<tensor::RandomStreamGuard> guard;
    stream.set_step(number++);
    if (in_replica) guard.emplace(stream);
    results.push_back(run(batch.x, batch.y).detach().clone());
  }
  for (const Tensor& parameter : module->parameters()) results.push_back(parameter.detach());
  for (const Tensor& buffer : module->buffers()) results.push_back(buffer);
  return tensor::fingerprint(results);
}

std::vector<Batch> batches(const std::function<Tensor()>& input, int64_t rows) {
  torch::manual_seed(3);
  std::vector<Batch> result;
  for (int i = 0; i < 20; ++i) result.push_back({input(), torch::randint(0, 5, {rows})});
  return result;
}

template <typename Module, typename Make>
void expect_same_bits(const Make& make, const std::vector<Batch>& data) {
  torch::set_num_threads(1);  // of so little work
  for (const bool in_replica : {false, true}) {
    const std::string eager = train<Module>(
        make, data, [](auto step) { return step; }, in_replica);
    int64_t graphs = 0;
    const std::string replayed = train<Module>(
        make, data,
        [&](auto step) {
          auto traced = function(step, {.name = "step"});
          return [traced, &graphs](const Tensor& x, const Tensor& y) {
            Tensor loss = traced(x, y);
            graphs = traced.tracing_count();
            return loss;
          };
        },
        in_replica);
    EXPECT_EQ(replayed, eager) << (in_replica ? "in a replica" : "without a replica");
    EXPECT_EQ(graphs, 1);
  }
}

TEST(FunctionTrainsTest, Mlp) {
  expect_same_bits<torch::nn::Sequential>(mlp, batches([] { return torch::randn({8, 12}); }, 8));
}

TEST(FunctionTrainsTest, CnnWithBatchNormalization) {
  expect_same_bits<torch::nn::Sequential>(cnn, batches(
                                                   [] {
                                                     return torch::randn({4, 3, 10, 10});
                                                   },
                                                   4));
}

TEST(FunctionTrainsTest, Lstm) {
  expect_same_bits<Lstm>([] { return Lstm(); }, batches(
                                                    [] {
                                                      return torch::randn({6, 7, 12});
                                                    },
                                                    6));
}

TEST(FunctionTrainsTest, Transformer) {
  expect_same_bits<Transformer>([] { return Transformer(); },
                                batches(
                                    [] {
                                      return torch::randint(0, 20, {9, 4});
                                    },
                                    4));
}

TEST(FunctionTest, ReplaysWithoutTheProgramsCode) {
  int calls = 0;
  const auto add = function([&](const Tensor& a, const Tensor& b) {
    ++calls;
    return a + 2 * b;
  });
  for (int i = 0; i < 10; ++i) {
    const Tensor a = torch::full({3}, i), b = torch::full({3}, 2 * i);
    EXPECT_TRUE(add(a, b).equal(a + 2 * b)) << i;
  }
  EXPECT_EQ(calls, 4);  // once as it is, three times to record it
}

TEST(FunctionTest, HasAGraphForEachSignature) {
  int calls = 0;
  const auto twice = function([&](const Tensor& x, bool negative, const std::string& name) {
    ++calls;
    EXPECT_EQ(name, "n");
    return negative ? -2 * x : 2 * x;
  });
  for (int i = 0; i < 5; ++i) {
    for (const int64_t rows : {1, 3, 0}) {
      const Tensor x = torch::randn({rows, 2});
      EXPECT_TRUE(twice(x, false, std::string("n")).equal(2 * x));
      EXPECT_TRUE(twice(x, true, std::string("n")).equal(-2 * x));
      EXPECT_TRUE(
          twice(x.to(torch::kDouble), true, std::string("n")).equal(-2 * x.to(torch::kDouble)));
    }
    EXPECT_TRUE(
        twice(torch::ones({4, 5}).t(), false, std::string("n")).equal(2 * torch::ones({5, 4})));
  }
  EXPECT_EQ(twice.tracing_count(), 10);
  EXPECT_EQ(calls, 40);
}

TEST(FunctionTest, TakesAndReturnsStructures) {
  using Named = std::map<std::string, std::vector<Tensor>>;
  const auto swap =
      function([](const std::pair<Tensor, Named>& value, const std::optional<Tensor>& more) {
        Tensor sum = value.first.clone();
        for (const auto& [name, tensors] : value.second) {
          for (const Tensor& tensor : tensors) sum += tensor;
        }
        if (more) sum += *more;
        return std::tuple(sum, Named{{"sum", {sum, value.first}}}, std::optional<Tensor>(), 7);
      });
  const Tensor one = torch::ones({2});
  for (int i = 0; i < 5; ++i) {
    const Tensor x = torch::full({2}, i, torch::kFloat);
    const auto [sum, named, none, seven] =
        swap(std::pair(x, Named{{"a", {one}}, {"b", {one, one}}}), std::optional<Tensor>(one));
    EXPECT_TRUE(sum.equal(x + 4));
    EXPECT_TRUE(named.at("sum")[0].equal(x + 4));
    EXPECT_TRUE(named.at("sum")[1].equal(x));
    EXPECT_FALSE(none.has_value());
    EXPECT_EQ(seven, 7);
    const auto again = swap(std::pair(x, Named{}), std::optional<Tensor>());
    EXPECT_TRUE(std::get<0>(again).equal(x));
  }
}

TEST(FunctionTest, ReadsAndWritesCapturedTensors) {
  Tensor total = torch::zeros({2, 3});
  const auto add = function([&](const Tensor& x) {
    total += x;
    total.select(0, 1).mul_(2);
    total.t()[0].fill_(1);
  });
  Tensor expected = torch::zeros({2, 3});
  for (int i = 0; i < 6; ++i) {
    const Tensor x = torch::full({2, 3}, i);
    add(x);
    expected += x;
    expected.select(0, 1).mul_(2);
    expected.t()[0].fill_(1);
    EXPECT_TRUE(total.equal(expected)) << i;
  }
  total.fill_(5);  // by the program, between two calls
  add(torch::zeros({2, 3}));
  EXPECT_EQ(total[1][2].item<float>(), 10);
}

TEST(FunctionTest, WritesArguments) {
  const auto fill = function([](Tensor x, const Tensor& y) { x.slice(0, 1).copy_(y); });
  for (int i = 0; i < 5; ++i) {
    Tensor x = torch::zeros({3});
    fill(x, torch::full({2}, i + 1));
    EXPECT_TRUE(x.equal(torch::tensor({0.0F, i + 1.0F, i + 1.0F}))) << x;
  }
}

TEST(FunctionTest, MakesItsConstantsAnew) {
  const auto count = function([](const Tensor& x) {
    Tensor made = torch::tensor({1.0F, 2.0F, 3.0F});
    made += x;
    Tensor buffer = torch::empty({3});
    buffer.copy_(made);
    Tensor fixed = torch::tensor({4, 5});
    return std::vector<Tensor>{made, buffer, torch::zeros({2}).add_(1), torch::arange(3) + x,
                               fixed};
  });
  for (int i = 0; i < 5; ++i) {
    const Tensor x = torch::full({3}, i, torch::kFloat);
    std::vector<Tensor> results = count(x);
    EXPECT_TRUE(results[0].equal(torch::tensor({1.0F, 2.0F, 3.0F}) + x));
    EXPECT_TRUE(results[1].equal(results[0]));
    EXPECT_TRUE(results[2].equal(torch::ones({2})));
    EXPECT_TRUE(results[3].equal(torch::arange(3) + x));
    EXPECT_TRUE(results[4].equal(torch::tensor({4, 5})));
    for (Tensor& result : results) result.zero_();  // the caller's own
  }
}

TEST(FunctionTest, DrawsTheNumbersThatTheFunctionWould) {
  const auto draw = [](const Tensor& x) {
    return torch::dropout(x, 0.5, true) + torch::rand({40}) + torch::randn_like(x) +
           torch::randint(0, 9, {40}) + x.clone().normal_() + torch::randperm(40);
  };
  const auto traced = function(draw);
  const Tensor x = torch::ones({40});
  for (const bool in_replica : {false, true}) {
    const auto results = [&](const auto& fn) {
      torch::manual_seed(1);
      tensor::RandomStream stream(5, 0);
      std::vector<Tensor> all;
      for (uint64_t i = 0; i < 5; ++i) {
        stream.set_step(i);
        std::optional<tensor::RandomStreamGuard> guard;
        if (in_replica) guard.emplace(stream);
        all.push_back(fn(x));
        all.push_back(torch::rand({2}));
      }
      return tensor::fingerprint(all);
    };
    EXPECT_EQ(results(traced), results(draw));
  }
}

TEST(FunctionTest, LeavesGradientsOfLeavesAsBackwardDoes) {
  Tensor eager = torch::ones({3}, torch::requires_grad());
  Tensor traced = torch::ones({3}, torch::requires_grad());
  const auto backward = [](Tensor& weight) {
    return [&weight](const Tensor& x) { (weight * x).square().sum().backward(); };
  };
  const auto replayed = function(backward(traced));
  for (int i = 0; i < 8; ++i) {
    const Tensor x = torch::full({3}, i + 1);
    if (i % 2 == 0) {  // each sum is of two
      eager.mutable_grad() = Tensor();
      traced.mutable_grad() = Tensor();
    }
    backward(eager)(x);
    replayed(x);
    ASSERT_TRUE(traced.grad().equal(eager.grad())) << i;
  }
}

TEST(FunctionTest, HasSecondDerivatives) {
  Tensor weight = torch::linspace(0, 1, 4).requires_grad_();
  const auto penalty = [&](const Tensor& x) {
    const Tensor value = (weight * x).sin().sum();
    const Tensor gradient = torch::autograd::grad({value}, {weight}, {}, true, true)[0];
    return torch::autograd::grad({gradient.square().sum()}, {weight})[0];
  };
  const auto traced = function(penalty);
  for (int i = 0; i < 5; ++i) {
    const Tensor x = torch::full({4}, i);
    EXPECT_TRUE(traced(x).equal(penalty(x)));
  }
}

TEST(FunctionTest, ContainsFunctions) {
  const auto inner = function([](const Tensor& x) { return x * 2; });
  const auto outer = function([&](const Tensor& x) { return inner(x) + 1; });
  for (int i = 0; i < 6; ++i) {
    const Tensor x = torch::full({2}, i, torch::kFloat);
    EXPECT_TRUE(outer(x).equal(2 * x + 1));
  }
  EXPECT_EQ(outer.graphs().at(0)->nodes.size(), 2U);
}

TEST(FunctionTest, RunsEagerlyOnRequest) {
  int calls = 0;
  const auto item = function(
      [&](const Tensor& x) {
        ++calls;
        return torch::full({1}, x.item<float>());
      },
      {.run_eagerly = true});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(item(torch::full({1}, i)).item<float>(), i);
  EXPECT_EQ(calls, 5);
}

TEST(FunctionTest, IsCalledFromThreads) {
  const auto step = function([](const Tensor& x, const Tensor& y) { return (x * y).sum(0); });
  on_threads(4, [&](int thread) {
    for (int i = 0; i < 200; ++i) {
      const Tensor x = torch::full({3 + i % 2, 2}, thread), y = torch::full({3 + i % 2, 2}, i);
      EXPECT_TRUE(step(x, y).equal((x * y).sum(0)));
    }
  });
}

// What cannot be recorded.

template <typename Fn>
void expect_refusal(const Fn& fn, std::initializer_list<std::string_view> parts) {
  const auto traced = function(fn, {.name = "train_step"});
  const Tensor x = torch::ones({4});
  traced(x);
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition, parts, [&] { traced(x); }));
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition, parts, [&] { traced(x); }));  // still
}

TEST(FunctionRefusesTest, ValuesOfTensors) {
  const auto hint = "return the tensor and read it outside the function";
  expect_refusal([](const Tensor& x) { return x * x.sum().item<float>(); },
                 {"[function] train_step: after operator 1, aten::sum", "item()", hint});
  expect_refusal(
      [](const Tensor& x) { return (x.sum() > 0).template item<bool>() ? x + 1 : x.clone(); },
      {"aten::_local_scalar_dense", "torch::where", "run this function eagerly"});
  expect_refusal([](const Tensor& x) { return x.equal(x + 1) ? x + 1 : x.clone(); },
                 {"aten::equal", hint});
}

TEST(FunctionRefusesTest, Addresses) {
  expect_refusal(
      [](const Tensor& x) { return x + *(x * 2).template data_ptr<float>(); },
      {"train_step: after operator 1, aten::mul", "data_ptr", "read them outside the function"});
  expect_refusal(
      [](const Tensor& x) {
        const Tensor twice = x * 2;
        return x + twice.accessor<float, 1>()[1];
      },
      {"data_ptr"});
}

TEST(FunctionRefusesTest, SizesThatDependOnElements) {
  expect_refusal([](const Tensor& x) { return x.nonzero(); },
                 {"aten::nonzero", "size", "torch::where"});
  expect_refusal([](const Tensor& x) { return x.masked_select(x > 0); }, {"aten::masked_select"});
}

TEST(FunctionRefusesTest, NumbersThatChange) {
  double rate = 1;
  const auto decaying =
      function([&](const Tensor& x) { return x * (rate /= 2); }, {.name = "decay"});
  const Tensor x = torch::ones({4});
  decaying(x);
  decaying(x);
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                     {"[function] decay: the step is not the same each time", "aten::mul",
                      "got the number 0.125 and gets 0.0625", "keep what changes in a tensor"},
                     [&] { decaying(x); }));

  torch::nn::Linear layer(4, 1);
  torch::optim::Adam adam(layer->parameters());  // counts its steps in a number
  const auto step = function([&](const Tensor& batch) {
    adam.zero_grad();
    layer(batch).sum().backward();
    adam.step();
  });
  step(x);
  step(x);
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition, {"the step is not the same each time"},
                     [&] { step(x); }));
}

TEST(FunctionRefusesTest, TensorsThatAreOthersEachTime) {
  Tensor batch;
  const auto step = function([&](const Tensor& x) { return x + batch; });
  for (int i = 0; i < 2; ++i) step(batch = torch::full({3}, i));
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                     {"reads another tensor", "pass it as an argument"},
                     [&] { step((batch = torch::full({3}, 2)).clone()); }));
}

TEST(FunctionTest, OtherNumbersOfRowsShareAGraph) {
  Tensor sum = torch::zeros({3});
  int written = 0;  // calls of the code itself
  const auto step = function(
      [&](const Tensor& x) {
        ++written;
        sum += x.sum(0);
        return x * 2;
      },
      {.reduce_retracing = true});
  const Tensor four = torch::ones({4, 3});
  for (int i = 0; i < 5; ++i) step(four);
  EXPECT_EQ(step.tracing_count(), 1);
  const int before = written;
  for (int64_t rows = 1; rows < 4; ++rows) {
    EXPECT_TRUE(step(torch::ones({rows, 3})).equal(torch::full({rows, 3}, 2.0)));
  }
  // One row has a graph of its own; two rows run as written and are recorded five times; three are replayed.
  EXPECT_EQ(written, before + 7);
  EXPECT_EQ(step.tracing_count(), 2);
  step(four);
  EXPECT_EQ(written, before + 7);
  EXPECT_TRUE(sum.equal(torch::full({3}, 4.0 * 6 + 6)));
  // What differs in more is another graph.
  for (int i = 0; i < 3; ++i) step(torch::ones({4, 3}, torch::kDouble));
  EXPECT_EQ(step.tracing_count(), 3);
}

TEST(FunctionRefusesTest, SparseTensors) {
  const auto step = function([](const Tensor& x) { return x.to_sparse(1).sum(); });
  const Tensor x = torch::ones({3});
  step(x);
  EXPECT_ANY_THROW(step(x));
}

TEST(FunctionRefusesTest, Compilers) {
  // This program does not link the compiler.
  EXPECT_TRUE(throws(ErrorCode::kUnimplemented, {"jit_compile", "strata::tpu", "replay"},
                     [] { function([](const Tensor& x) { return x; }, {.jit_compile = true}); }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"max_graphs"},
                     [] { function([](const Tensor& x) { return x; }, {.max_graphs = 0}); }));
}

TEST(FunctionRefusesTest, NothingAfterAnErrorOfTheProgram) {
  bool fails = false;
  const auto step = function([&](const Tensor& x) {
    if (fails) throw std::runtime_error("mine");
    return x.view({2, -1}) + 1;
  });
  const Tensor x = torch::ones({4});
  step(x);
  fails = true;
  EXPECT_THROW(step(x), std::runtime_error);
  fails = false;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(step(x).equal(torch::full({2, 2}, 2)));
  EXPECT_THROW(step(torch::ones({3})), c10::Error);        // view's own
  EXPECT_TRUE(torch::ones({2}).sum().item<float>() == 2);  // no trace is left
}

/// Doubles x by a FunctionCore, `calls` times, and checks the results.
void double_by(graph::FunctionCore& core, int calls, const std::function<void()>& effect = {}) {
  const Tensor x = torch::ones({3});
  for (int i = 0; i < calls; ++i) {
    core.prepare_to_record();
    const auto step = [&](const std::vector<Tensor>& given,
                          graph::FunctionCore::Structured& /*structure*/) {
      if (effect) effect();
      return std::vector<Tensor>{given[0] * 2};
    };
    graph::FunctionCore::Result result;
    core.call({.tensors = {x}, .rest = {}}, step, result);
    EXPECT_TRUE(result.tensors.at(0).equal(x * 2));
  }
}

TEST(RecordingPolicyTest, RecordsOnceThatIsASmallPartOfTheTime) {
  graph::FunctionCore never({.name = "never"}, {.share = 1e-12});
  double_by(never, 50);
  EXPECT_EQ(never.tracing_count(), 0);
  graph::FunctionCore soon({.name = "soon"}, {.share = 1e12});
  double_by(soon, 1);
  EXPECT_EQ(soon.tracing_count(), 0);  // it makes variables and the like
  double_by(soon, 4);
  EXPECT_EQ(soon.tracing_count(), 1);
  soon.forget();
  double_by(soon, 4);
  EXPECT_EQ(soon.tracing_count(), 2);
}

TEST(RecordingPolicyTest, ARefusedStepRunsAsItIsWritten) {
  std::vector<std::string> reasons;
  graph::FunctionCore core(
      {.name = "step"}, {.refused = [&](const std::string& reason) { reasons.push_back(reason); }});
  int calls = 0;
  double_by(core, 6, [&] {
    ++calls;
    EXPECT_EQ(torch::ones({2}).sum().item<float>(), 2);
  });
  EXPECT_EQ(calls, 7);  // six, and the recording that was refused
  ASSERT_EQ(reasons.size(), 1U);
  EXPECT_NE(reasons[0].find("asks for the elements of a tensor"), std::string::npos) << reasons[0];
}

TEST(RecordingPolicyTest, AStepThatKeepsATensorIsRefused) {
  std::vector<std::string> reasons;
  graph::FunctionCore core(
      {.name = "step"}, {.refused = [&](const std::string& reason) { reasons.push_back(reason); }});
  Tensor kept;
  double_by(core, 4, [&] { kept = torch::ones({2}) + 1; });
  EXPECT_TRUE(kept.equal(torch::full({2}, 2)));
  ASSERT_EQ(reasons.size(), 1U);
  EXPECT_NE(reasons[0].find("keeps a tensor of its own"), std::string::npos) << reasons[0];
}

TEST(FunctionGraphsTest, AreCountedAndLimited) {
  test::LogLines lines;
  const auto step =
      function([](const Tensor& x) { return x + 1; }, {.name = "eval", .max_graphs = 7});
  for (int64_t rows = 1; rows <= 9; ++rows) {
    for (int i = 0; i < 2; ++i) step(torch::ones({rows}));
  }
  EXPECT_EQ(step.tracing_count(), 9);
  EXPECT_EQ(step.graphs().size(), 7U);
  EXPECT_EQ(step.graphs()[0]->values.at(0).sizes, (std::vector<int64_t>{9}));
  const std::string warning = lines.await({"[function] eval has 5 graphs"});
  EXPECT_NE(warning.find("tensor 0 is Float [6]"), std::string::npos) << warning;
  EXPECT_NE(warning.find("was Float [5]"), std::string::npos) << warning;
}

TEST(FunctionGraphsTest, HoldNothingThatIsDead) {
  const auto step = function([](const Tensor& x) {
    const Tensor unused = x.exp().sum();
    const Tensor weights = torch::randn({4}, torch::requires_grad());
    return (x.detach().alias() + 1).view_as(x);
  });
  for (int i = 0; i < 3; ++i) step(torch::ones({4}));
  const std::string text = to_string(*step.graphs().at(0));
  EXPECT_EQ(text,
            "graph function\n"
            "  %0 = input : Float [4]\n"
            "  %1 = aten::randn([4], None, None, None, None) : Float [4]\n"
            "  %2 = aten::add.Scalar(%0, 1, 1) : Float [4]\n"
            "  return [%2]\n");
}

}  // namespace
}  // namespace strata
