// Errors and printed graphs name the line of the program, which is compiled with -g1 and -O2 here.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/describe_node.h"
#include "graph/places.h"
#include "graph/stablehlo/lower.h"
#include "graph/stablehlo/trace_to_compile.h"
#include "graph/symbols.h"
#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "strata/graph/function.h"
#include "strata/graph/graph.h"
#include "strata/graph/inference.h"
#include "strata/graph/onnx.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/variable.h"

// Not strata's namespace: what is in that is strata's own.
namespace program {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using strata::str_cat;

std::string place_at(int line) { return str_cat("places_test.cc:", line, " ("); }

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const strata::Error& error) {
    return error.what();
  }
  return "no error";
}

std::string lowering_error(const std::function<Tensor(const Tensor&)>& step, const Tensor& x) {
  return error_of([&] {
    strata::graph::stablehlo::lower(*strata::graph::stablehlo::trace_to_compile(
        "step", {x}, [&](const Tensors& inputs) { return Tensors{step(inputs[0])}; }));
  });
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nhas no: " << part;
}

/// The line of the printed graph that has `name`.
std::string line_of(const strata::graph::Graph& graph, const std::string& name) {
  const std::string text = to_string(graph, {.places = true});
  const size_t at = text.find(name);
  if (at == std::string::npos) return "no " + name + " in " + text;
  const size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

constexpr int kRoundedLine = __LINE__ + 1;
Tensor rounded(const Tensor& x) { return at::round(x, /*decimals=*/2); }

TEST(PlacesTest, ALoweringsErrorNamesTheLine) {
  const Tensor x = at::ones({3, 3});
  const std::string message =
      lowering_error([](const Tensor& each) { return rounded(each * 2); }, x);
  expect_part(message, "(aten::round.decimals, Float [3, 3]; called at ");
  expect_part(message, place_at(kRoundedLine));
  expect_part(message, "rounded)");

  int line = 0;
  const std::string in_lambda = lowering_error(
      [&](const Tensor& each) {
        line = __LINE__ + 1;
        return at::linalg_inv(each);
      },
      x);
  expect_part(in_lambda, place_at(line));
}

struct NetImpl : torch::nn::Module {
  Tensor forward(const Tensor& x) {
    const Tensor hidden = linear(x);
    line = __LINE__ + 1;
    return hidden.round(2);
  }
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(3, 3));
  int line = 0;
};
TORCH_MODULE(Net);

TEST(PlacesTest, AModulesErrorNamesTheLine) {
  const Net net;
  torch::nn::Sequential all(torch::nn::Linear(3, 3), net);
  const std::string message =
      lowering_error([&](const Tensor& x) { return all->forward(x); }, at::ones({2, 3}));
  expect_part(message, "(aten::round.decimals, Float [2, 3]; called at ");
  expect_part(message, place_at(net->line));
  expect_part(message, "forward)");
}

/// Its gradient has no rule.
struct RoundedGradient : torch::autograd::Function<RoundedGradient> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) {
    line = __LINE__ + 1;
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {rounded(gradients[0])};
  }
  static inline int line = 0;
};

TEST(PlacesTest, AnErrorInBackwardNamesTheLineOfForward) {
  const Tensor weight = at::ones({3, 3}).requires_grad_();
  const std::string message = lowering_error(
      [&](const Tensor& x) {
        const Tensor loss = RoundedGradient::apply(at::matmul(x, weight)).sum();
        return torch::autograd::grad({loss}, {weight})[0];
      },
      at::ones({2, 3}));
  expect_part(message, "(aten::round.decimals, Float [2, 3]; in the backward pass of ");
  expect_part(message, place_at(RoundedGradient::line));
}

TEST(PlacesTest, GradientsOfLibtorchsOperatorsHaveTheLinesOfForward) {
  const Tensor weight = at::ones({3, 3}).requires_grad_();
  int matmul = 0, write = 0, tanh = 0, backward = 0;
  const auto trace = strata::graph::stablehlo::trace_to_compile(
      "step", {at::ones({2, 3})}, [&](const Tensors& inputs) {
        matmul = __LINE__ + 1;
        Tensor hidden = at::matmul(inputs[0], weight);
        write = __LINE__ + 1;
        hidden.select(0, 0).mul_(2);
        tanh = __LINE__ + 1;
        const Tensor loss = hidden.tanh().sum();
        backward = __LINE__ + 1;
        return torch::autograd::grad({loss}, {weight});
      });
  const strata::graph::Graph& graph = trace->graph;
  expect_part(line_of(graph, " aten::mm("), "called at ");
  expect_part(line_of(graph, " aten::mm("), place_at(matmul));
  expect_part(line_of(graph, " aten::tanh("), place_at(tanh));
  const std::string tanh_backward = line_of(graph, " aten::tanh_backward(");
  expect_part(tanh_backward, "in the backward pass of ");
  expect_part(tanh_backward, place_at(tanh));
  // The first gradient, of the loss to itself.
  expect_part(line_of(graph, " aten::ones_like("), place_at(backward));
  const std::string text = to_string(graph, {.places = true});
  expect_part(text, "in the backward pass of ");
  bool of_write = false, of_matmul = false;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const std::string node = describe_node(graph, n);
    if (node.find("in the backward pass of ") == std::string::npos) continue;
    of_write = of_write || node.find(place_at(write)) != std::string::npos;
    of_matmul = of_matmul || (node.find("aten::mm") != std::string::npos &&
                              node.find(place_at(matmul)) != std::string::npos);
  }
  EXPECT_TRUE(of_write && of_matmul) << text;
}

/// strata walks backward itself in `minimize`.
TEST(PlacesTest, AFunctionsGraphHasTheLinesOfItsStep) {
  const strata::Variable weight(at::ones({3, 2}));
  strata::optimizers::SGD sgd({weight}, {.learning_rate = 0.1});
  int tanh = 0, update = 0;
  const auto step = strata::function([&](const Tensor& x) {
    tanh = __LINE__ + 1;
    const Tensor loss = at::matmul(x, weight.value()).tanh().sum();
    update = __LINE__ + 1;
    sgd.minimize(loss);
  });
  for (int i = 0; i < 3; ++i) step(at::ones({4, 3}));
  const auto graph = step.graphs().at(0);
  expect_part(line_of(*graph, "aten::tanh("), place_at(tanh));
  const std::string tanh_backward = line_of(*graph, "aten::tanh_backward(");
  expect_part(tanh_backward, "in the backward pass of ");
  expect_part(tanh_backward, place_at(tanh));
  expect_part(to_string(*graph, {.places = true}), place_at(update));
  EXPECT_EQ(to_string(*graph).find("places_test.cc"), std::string::npos);
}

TEST(PlacesTest, AFunctionsErrorNamesTheLine) {
  int item = 0;
  const auto step = strata::function([&](const Tensor& x) {
    const Tensor sum = x.sum();
    item = __LINE__ + 1;
    return sum * sum.item<double>();
  });
  step(at::ones({2}));
  const std::string message = error_of([&] { step(at::ones({2})); });
  expect_part(message, "after operator 1, aten::sum: ");
  expect_part(message, place_at(item));

  // An address is asked for below strata; the operator before it is known.
  int sum = 0;
  const auto reads = strata::function([&](const Tensor& x) {
    sum = __LINE__ + 1;
    const Tensor all = x.sum();
    return all * *all.const_data_ptr<float>();
  });
  reads(at::ones({2}));
  const std::string access = error_of([&] { reads(at::ones({2})); });
  expect_part(access, "after operator 1, aten::sum; called at ");
  expect_part(access, place_at(sum));
}

TEST(PlacesTest, AChangedNumberNamesTheLine) {
  double factor = 1;
  int line = 0;
  const auto step = strata::function([&](const Tensor& x) {
    factor += 1;
    line = __LINE__ + 1;
    return x * factor;
  });
  const std::string message = error_of([&] {
    for (int i = 0; i < 4; ++i) step(at::ones({2}));
  });
  expect_part(message, "the step is not the same each time");
  expect_part(message, place_at(line));
}

TEST(PlacesTest, AnExportsErrorNamesTheLine) {
  int line = 0;
  const std::string message = error_of([&] {
    export_onnx(strata::graph::trace_inference(
                    [&](const Tensors& x) {
                      line = __LINE__ + 1;
                      const Tensor y = x[0].lgamma();
                      return Tensors{y};
                    },
                    {at::ones({3, 4})}),
                "unwritten.onnx");
  });
  expect_part(message, "(aten::lgamma, Float [3, 4]; called at ");
  expect_part(message, place_at(line));
}

TEST(PlacesTest, AMessageFromElsewhereGetsThePlace) {
  int line = 0;
  const auto trace =
      strata::graph::stablehlo::trace_to_compile("step", {at::ones({2})}, [&](const Tensors& x) {
        line = __LINE__ + 1;
        const Tensor y = x[0].tanh();
        return Tensors{y};
      });
  const strata::graph::Graph& graph = trace->graph;
  const std::string message = with_place("[standalone] step: node 0 (aten::tanh) is bad", graph);
  expect_part(message, "node 0 (aten::tanh; called at ");
  expect_part(message, place_at(line));
  // Of another graph, or about none.
  for (const char* other : {"node 0 (aten::exp) is bad", "node 0 (aten::tanh, Float [2])",
                            "node 7 (aten::tanh)", "node of none", ""}) {
    EXPECT_EQ(with_place(other, graph), other);
  }
}

TEST(PlacesTest, OperatorsOfOneLineShareAPlace) {
  const auto trace =
      strata::graph::stablehlo::trace_to_compile("step", {at::ones({2})}, [&](const Tensors& x) {
        Tensor y = x[0];
        for (int i = 0; i < 3; ++i) y = y.tanh();
        return Tensors{y};
      });
  const auto& nodes = trace->graph.nodes;
  ASSERT_EQ(nodes.size(), 3U);
  ASSERT_NE(nodes[0].place, nullptr);
  EXPECT_EQ(nodes[0].place, nodes[1].place);
  EXPECT_EQ(nodes[1].place, nodes[2].place);
  EXPECT_LT(nodes[0].place->frames.size(), 64U);
}

TEST(PlacesTest, AGraphWithoutPlacesIsDescribedWithoutThem) {
  strata::graph::Graph graph;
  graph.nodes.push_back({.name = "aten::sort"});
  EXPECT_EQ(describe_node(graph, 0), "node 0 (aten::sort)");
  graph.nodes[0].place =
      std::make_shared<strata::graph::Place>(strata::graph::Place{.layer = "dense_1"});
  EXPECT_EQ(describe_node(graph, 0), "node 0 (aten::sort; layer dense_1)");
  graph.nodes[0].place =
      std::make_shared<strata::graph::Place>(strata::graph::Place{.forward = graph.nodes[0].place});
  EXPECT_EQ(describe_node(graph, 0), "node 0 (aten::sort; in the backward pass of layer dense_1)");
}

TEST(SymbolsTest, NamesOfFunctions) {
  using strata::graph::is_library_function;
  using strata::graph::qualified_name;
  EXPECT_EQ(qualified_name("main"), "main");
  EXPECT_EQ(qualified_name("net::Net::forward(at::Tensor const&) const"), "net::Net::forward");
  EXPECT_EQ(qualified_name("at::Tensor (anonymous namespace)::f<int>(int)"),
            "(anonymous namespace)::f<int>");
  EXPECT_EQ(qualified_name("auto main::{lambda(auto:1)#1}::operator()<int>(int) const"),
            "main::{lambda(auto:1)#1}::operator()<int>");
  EXPECT_EQ(qualified_name("run(int)::{lambda()#1}::operator()() const"),
            "run(int)::{lambda()#1}::operator()");
  EXPECT_EQ(qualified_name("operator()"), "operator()");
  EXPECT_EQ(qualified_name("bool a::operator< <int>(a::B<int> const&, int)"), "a::operator< <int>");
  for (const char* library :
       {"at::relu(at::Tensor const&)", "std::function<void ()>::operator()() const",
        "strata::graph::(anonymous namespace)::f(int)::{lambda()#1}::operator()() const",
        "at::Tensor strata::call<std::vector<int> >(int)", "c10::Dispatcher::call(int)",
        "std::_Function_handler<void (), strata::graph::f(int) const::{lambda()#1}>::_M_invoke("
        "std::_Any_data const&)",
        "void torch::nn::AnyModule::forward<at::Tensor>(at::Tensor&&)"}) {
    EXPECT_TRUE(is_library_function(library)) << library;
  }
  for (const char* own :
       {"main", "net::Net::forward(at::Tensor const&)", "(anonymous namespace)::f()",
        "std::vector<at::Tensor> step(at::Tensor const&)",
        "std::_Function_handler<at::Tensor (), main::{lambda()#1}>::_M_invoke(std::_Any_data&)",
        "auto strata::Function<net::train(int)::{lambda(auto:1)#1}>::operator()<int>(int)",
        "attic::at::f()", "std_like::f()"}) {
    EXPECT_FALSE(is_library_function(own)) << own;
  }
}

}  // namespace
}  // namespace program
