// Saved graphs: what they compute after loading, and that damaged files end in errors.
#include "strata/graph/saved_graph.h"

#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "core/crc32c.h"
#include "core/proto_wire.h"
#include "graph/saved/saved_messages.h"
#include "strata/core/file_system.h"
#include "support/damaged.h"
#include "support/expect_error.h"
#include "support/proto_contract.h"
#include "support/soak_setting.h"
#include "support/temp_folder.h"

namespace strata::graph {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

struct ConvNetImpl : torch::nn::Module {
  ConvNetImpl() {
    register_module("conv", conv);
    register_module("norm", norm);
    register_module("dense", dense);
  }
  Tensor forward(const Tensor& x) {
    const Tensor y = norm(conv(x)).relu_();
    return torch::softmax(dense(torch::max_pool2d(y, 2).flatten(1)), 1);
  }
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(2, 3, 3).padding(1)};
  torch::nn::BatchNorm2d norm{3};
  torch::nn::Linear dense{48, 5};
};

InferenceGraph conv_net(ConvNetImpl& net) {
  return trace_inference(net, torch::zeros({2, 2, 8, 8}), {.name = "conv_net", .any_batch = true});
}

std::string bytes_of(const std::string& path) { return read_file(path); }

void put_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// With the checksum that its bytes have.
std::string with_checksum(std::string bytes) {
  if (bytes.size() < saved::kChecksumBytes) return bytes;
  bytes.resize(bytes.size() - saved::kChecksumBytes);
  detail::put_fixed(crc32c(bytes.data(), bytes.size()), bytes);
  return bytes;
}

TEST(SavedGraphTest, ComputesWhatTheProgramDid) {
  const test::TempFolder folder;
  const std::string path = join_path(folder.path(), "net.graph");
  torch::manual_seed(1);
  ConvNetImpl net;
  net.norm->running_mean.uniform_();
  save_graph(conv_net(net), path);
  const LoadedGraph loaded = load_graph(path);
  EXPECT_EQ(loaded.graph().graph.name, "conv_net");
  net.eval();
  const torch::NoGradGuard no_grad;
  for (const int64_t batch : {1, 2, 7, 1}) {
    const Tensor x = torch::randn({batch, 2, 8, 8});
    EXPECT_TRUE(torch::equal(loaded({x}).at(0), net.forward(x))) << batch;
  }
}

TEST(SavedGraphTest, KeepsWeightsAsTheyLie) {
  const test::TempFolder folder;
  const std::string path = join_path(folder.path(), "net.graph");
  const Tensor turned = torch::randn({4, 3}).t(),
               one = torch::randn({3}).unsqueeze(1).expand({3, 4});
  const auto function = [&](const Tensors& x) {
    return Tensors{x[0] + turned, turned, torch::where(x[0] > 0, one, 2.5),
                   x[0].view({-1}).narrow(0, 2, 3)};
  };
  save_graph(trace_inference(function, {torch::zeros({3, 4})}), path);
  const Tensor x = torch::randn({3, 4});
  const Tensors got = load_graph(path)({x}), expected = function({x});
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(torch::equal(got[i], expected[i])) << i;
  EXPECT_EQ(got[1].strides(), turned.strides());
}

TEST(SavedGraphTest, OutputsAreNotTheWeights) {
  const test::TempFolder folder;
  const std::string path = join_path(folder.path(), "net.graph");
  const Tensor weight = torch::ones({3});
  save_graph(trace_inference(
                 [&](const Tensors& x) {
                   return Tensors{x[0], weight.view({3, 1})};
                 },
                 {torch::zeros({3})}),
             path);
  const LoadedGraph loaded = load_graph(path);
  const Tensor x = torch::zeros({3});
  for (const Tensor& each : loaded({x})) each.fill_(9);
  EXPECT_EQ(x.sum().item<float>(), 0);
  EXPECT_EQ(loaded({x}).at(1).sum().item<float>(), 3);
}

TEST(SavedGraphTest, RefusesOtherInputs) {
  const test::TempFolder folder;
  const std::string path = join_path(folder.path(), "net.graph");
  ConvNetImpl net;
  save_graph(conv_net(net), path);
  const LoadedGraph loaded = load_graph(path);
  const auto refused = [&](const Tensors& inputs, const std::string& part) {
    expect_error_containing([&] { loaded(inputs); }, ErrorCode::kInvalidArgument, part);
  };
  refused({}, "got 0 inputs; expected 1");
  refused({torch::zeros({3, 2, 8, 7})},
          "got input 0 of Float [3, 2, 8, 7]; expected Float [3, 2, 8, 8]");
  refused({torch::zeros({3, 2, 8, 8}, torch::kDouble)}, "got input 0 of Double");
  refused({torch::zeros({0, 2, 8, 8})}, "got no example");
}

TEST(SavedGraphTest, RefusesWhatItCannotSave) {
  const test::TempFolder folder;
  const std::string path = join_path(folder.path(), "net.graph");
  const auto refused = [&](const InferenceFunction& function, const std::string& part) {
    expect_error_containing(
        [&] { save_graph(trace_inference(function, {torch::zeros({3})}), path); },
        ErrorCode::kUnimplemented, part);
    EXPECT_FALSE(std::filesystem::exists(path));
  };
  const Tensor count = torch::zeros({3});
  refused([&](const Tensors& x) { return Tensors{count.add_(x[0])}; }, "it writes a variable");
  refused([&](const Tensors& x) { return Tensors{x[0].lgamma()}; },
          ") is no operator that saved graphs may have");
  refused([&](const Tensors& x) { return Tensors{x[0].add_(1)}; }, "writes an input or a constant");
}

TEST(SavedGraphTest, MessagesAreTheContracts) {
  test::ProtoContract contract("strata/saved_graph.proto");
  contract.expect_message<saved::SavedGraph>("SavedGraph");
  contract.expect_nothing_else();
}

/// A file whose head was changed, with the right checksum and lengths.
std::string changed(const std::string& bytes,
                    const std::function<void(saved::SavedGraph&)>& change) {
  static constexpr detail::WireText kText{.call = "[test]", .expected = "a graph"};
  detail::WireReader start(std::string_view(bytes).substr(8), bytes, kText);
  const auto size = start.fixed<uint64_t>();
  const std::string_view head = std::string_view(bytes).substr(16, size);
  detail::WireReader reader(head, head, kText);
  saved::SavedGraph graph;
  read_message(graph, reader);
  change(graph);
  std::string new_head;
  detail::write_message(graph, new_head);
  std::string result(saved::kMagic);
  detail::put_fixed(uint64_t{new_head.size()}, result);
  return with_checksum(result + new_head + bytes.substr(16 + size));
}

class DamagedGraphTest : public testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(2);
    ConvNetImpl net;
    save_graph(conv_net(net), path_);
    bytes_ = bytes_of(path_);
  }
  void expect_refused(const std::string& bytes, ErrorCode code, const std::string& part) {
    put_file(path_, bytes);
    expect_error_containing([&] { load_graph(path_); }, code, part);
  }
  void expect_refused(const std::function<void(saved::SavedGraph&)>& change, ErrorCode code,
                      const std::string& part) {
    expect_refused(changed(bytes_, change), code, part);
  }

  const test::TempFolder folder_;
  const std::string path_ = join_path(folder_.path(), "net.graph");
  std::string bytes_;
};

saved::SavedNode& node_of(saved::SavedGraph& graph, std::string_view name) {
  return *std::ranges::find(graph.nodes, name, &saved::SavedNode::name);
}

/// native_batch_norm reads one number a channel, however many its statistics have.
TEST_F(DamagedGraphTest, WhatOperatorsDoNotCheckIsChecked) {
  for (const size_t argument : {1, 2, 3, 4}) {
    expect_refused(
        [argument](saved::SavedGraph& graph) {
          const int64_t other =
              node_of(graph, "aten::addmm").arguments[0].values[0];  // five numbers
          node_of(graph, "aten::native_batch_norm").arguments[argument].values[0] = other;
        },
        ErrorCode::kDataLoss, "not one number a channel");
  }
}

TEST_F(DamagedGraphTest, ResultsAreWhatTheGraphSays) {
  put_file(path_, changed(bytes_, [](saved::SavedGraph& graph) {
             const int64_t result = node_of(graph, "aten::addmm").results[0].values[0];
             graph.values[static_cast<size_t>(result)].sizes[1] = 4;
           }));
  const LoadedGraph graph = load_graph(path_);
  expect_error_containing(
      [&] {
        graph({torch::zeros({2, 2, 8, 8})});
      },
      ErrorCode::kDataLoss, "(aten::addmm) gave Float [2, 5]; expected Float [2, 4]");
}

TEST_F(DamagedGraphTest, FaultsAreNamed) {
  using saved::SavedGraph;
  constexpr ErrorCode kLoss = ErrorCode::kDataLoss, kNot = ErrorCode::kUnimplemented;
  expect_refused("", kLoss, "got 0 bytes");
  expect_refused("PK" + bytes_.substr(2), kLoss, "another beginning");
  expect_refused(with_checksum(bytes_.substr(0, bytes_.size() - 100)), kLoss, "beyond its end");
  std::string other = bytes_;
  other[other.size() - 9] ^= 1;
  expect_refused(other, kLoss, "another checksum");
  expect_refused([](SavedGraph& graph) { graph.version = 2; }, kNot, "a later strata wrote it");
  expect_refused([](SavedGraph& graph) { graph.nodes[0].name = "aten::from_file"; }, kNot,
                 "no operator that saved graphs may have");
  expect_refused([](SavedGraph& graph) { graph.nodes[0].name = "aten::set_.source_Tensor"; }, kNot,
                 "no operator that saved graphs may have");
  expect_refused([](SavedGraph& graph) { graph.nodes[0].arguments.pop_back(); }, kNot,
                 "other numbers of arguments");
  expect_refused([](SavedGraph& graph) { graph.nodes[0].arguments[3].number.emplace().real = 1; },
                 kNot, "an argument `stride` of another type");
  expect_refused([](SavedGraph& graph) { graph.values[1].sizes[0] = int64_t{1} << 40; }, kLoss,
                 "value 1 with elements");
  expect_refused([](SavedGraph& graph) { graph.values[0].sizes[0] = -1; }, kLoss,
                 "sizes that are negative");
  expect_refused([](SavedGraph& graph) { graph.values[0].dtype = 99; }, kLoss, "an unknown dtype");
  expect_refused([](SavedGraph& graph) { graph.values[0].memory = 5; }, kLoss,
                 "a memory that is none");
  expect_refused([](SavedGraph& graph) { graph.outputs[0] = 999; }, kLoss,
                 "a value that does not exist");
  expect_refused([](SavedGraph& graph) { std::swap(graph.nodes.front(), graph.nodes.back()); },
                 kLoss, "made before it");
  expect_refused([](SavedGraph& graph) { graph.terms.at(0).index = 999; }, kLoss, "a term of no");
  expect_refused([](SavedGraph& graph) { graph.terms.at(0).part = 4; }, kLoss,
                 "a term that is none");
  put_file(path_, bytes_);
  expect_error_containing([&] { load_graph(path_, {.parts = 10}); }, ErrorCode::kResourceExhausted,
                          "ReadLimits::parts");
}

/// A few bytes are other ones, are missing or are there twice; with the checksum made right, so that it is
/// not the checksum alone that finds them.
TEST_F(DamagedGraphTest, MutationsEndInErrorsOrGraphs) {
  const auto mutations = static_cast<int>(test::soak_setting("STRATA_FUZZ_GRAPHS", 1000));
  std::mt19937_64 random(test::soak_setting("STRATA_FUZZ_SEED", 20));
  int refused = 0, loaded = 0;
  for (int i = 0; i < mutations; ++i) {
    const std::string bytes = test::damaged(bytes_, random, [&](std::string& damaged) {
      // The head, where all is that could do harm.
      damaged[random() % std::min<size_t>(damaged.size(), 2000)] = static_cast<char>(random());
    });
    put_file(path_, i % 8 == 0 ? bytes : with_checksum(bytes));
    try {
      load_graph(path_);
      ++loaded;
    } catch (const Error& error) {
      ++refused;
      EXPECT_TRUE(error.code() == ErrorCode::kDataLoss ||
                  error.code() == ErrorCode::kUnimplemented ||
                  error.code() == ErrorCode::kResourceExhausted)
          << i << ": " << error.what();
    }  // any other exception fails the test
  }
  // What is only another weight or another number is a graph.
  EXPECT_GT(refused, mutations / 4);
  EXPECT_GT(loaded, 0);
}

}  // namespace
}  // namespace strata::graph
