// Graphs as data: what is in one, how it is printed, and which are refused.
#include "strata/graph/graph.h"

#include <torch/torch.h>

#include <string>
#include <vector>

#include "strata/graph/function.h"
#include "support/replicas.h"

namespace strata::graph {
namespace {

using at::Tensor;

Graph example(const Tensor& weight, const Tensor& count) {
  const auto step = function(
      [&](const Tensor& x) {
        const torch::NoGradGuard no_grad;
        count.add_(1);
        return torch::cat({x.matmul(weight), x}, 1).t();
      },
      {.name = "example"});
  for (int i = 0; i < 3; ++i) step(torch::ones({2, 3}));
  return *step.graphs().at(0);
}

TEST(GraphTest, SaysWhatTensorsAre) {
  const Tensor weight = torch::ones({3, 4}), count = torch::zeros({});
  const Graph graph = example(weight, count);
  ASSERT_EQ(graph.inputs.size(), 1U);
  EXPECT_EQ(graph.values[0].kind, ValueKind::kInput);
  const Value* state = nullptr;
  const Value* capture = nullptr;
  for (const Value& value : graph.values) {
    if (value.kind == ValueKind::kState) state = &value;
    if (value.kind == ValueKind::kCapture && value.sizes.size() == 2) capture = &value;
  }
  ASSERT_NE(state, nullptr);
  ASSERT_NE(capture, nullptr);
  EXPECT_TRUE(state->tensor.is_alias_of(count));
  EXPECT_TRUE(capture->tensor.is_alias_of(weight));
  const Value& output = graph.values[static_cast<size_t>(graph.outputs[0])];
  EXPECT_EQ(output.sizes, (std::vector<int64_t>{7, 2}));
  EXPECT_EQ(output.strides, (std::vector<int64_t>{1, 7}));
  EXPECT_NE(output.memory, graph.outputs[0]);  // a view
  EXPECT_EQ(count.item<float>(), 3);
}

TEST(GraphTest, IsPrinted) {
  const std::string text = to_string(example(torch::ones({3, 4}), torch::zeros({})));
  for (const char* part :
       {"graph example\n", "= input : Float [2, 3]", "= state : Float []", "= aten::add_.",
        "= aten::mm(", "= aten::cat([%", "], 1) : Float [2, 7]", "= aten::t(", "return [%"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in:\n" << text;
  }
}

TEST(GraphTest, IsDrawn) {
  const std::string text = to_dot(example(torch::ones({3, 4}), torch::zeros({})));
  for (const char* part : {"digraph \"example\" {", "v0 [shape=ellipse, label=\"%0 input", "-> n0;",
                           "label=\"aten::cat\"", "-> o0;"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in:\n" << text;
  }
}

TEST(GraphCheckTest, AcceptsWhatWasTraced) {
  check(example(torch::ones({3, 4}), torch::zeros({})));
}

TEST(GraphCheckTest, RefusesWhatDoesNotHoldTogether) {
  const Graph good = example(torch::ones({3, 4}), torch::zeros({}));
  const auto expect = [&](const char* part, const std::function<void(Graph&)>& damage) {
    Graph graph = good;
    damage(graph);
    EXPECT_TRUE(
        throws(ErrorCode::kInvalidArgument, {"[graph] check: ", part}, [&] { check(graph); }));
  };
  const auto last = [](Graph& graph) -> Node& { return graph.nodes.back(); };
  expect("no tensor", [](Graph& graph) {
    for (Value& value : graph.values) value.tensor = Tensor();
  });
  expect("unequal numbers of sizes and strides",
         [](Graph& graph) { graph.values[0].sizes.push_back(1); });
  expect("a negative size", [](Graph& graph) { graph.values[0].sizes[0] = -1; });
  expect("the memory of a value that does not exist",
         [](Graph& graph) { graph.values[0].memory = 99; });
  expect("a node that does not exist", [](Graph& graph) { graph.values.back().node = 99; });
  expect("an argument that is not made before it",
         [&](Graph& graph) { graph.nodes.front().arguments = last(graph).arguments; });
  expect("an operator that this program does not have",
         [&](Graph& graph) { last(graph).name = "aten::nix"; });
  expect("other numbers of arguments", [&](Graph& graph) { last(graph).arguments.emplace_back(); });
  expect("a result that does not exist",
         [&](Graph& graph) { last(graph).results[0].values[0] = 99; });
  expect("an operand of one value with another number",
         [&](Graph& graph) { last(graph).results[0].values.clear(); });
  expect("values in a number",
         [&](Graph& graph) { last(graph).arguments[0].kind = Operand::Kind::kNumber; });
  expect("a write to an unknown value", [&](Graph& graph) { last(graph).written.push_back(99); });
  expect("a value that no node makes", [](Graph& graph) { graph.outputs[0] = 99; });
  expect("a value that does not exist", [](Graph& graph) { graph.inputs[0] = 99; });
}

}  // namespace
}  // namespace strata::graph
