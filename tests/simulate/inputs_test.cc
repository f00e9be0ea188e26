// Networks and links as files, and those that are built in.
#include <gtest/gtest.h>

#include <algorithm>

#include "simulate/chart.h"
#include "simulate/links_file.h"
#include "simulate/network_table.h"
#include "simulate/scenario.h"
#include "support/expect_error.h"

namespace strata::simulate {
namespace {

int64_t parameters(const char* name) { return built_in_network(name, 1, 64).bytes() / 4; }

TEST(NetworkTableTest, BuiltInNetworksHaveTheKnownParameters) {
  EXPECT_EQ(parameters("inception3"), 23'817'352);
  EXPECT_EQ(parameters("resnet50"), 25'557'032);
  EXPECT_EQ(parameters("vgg16"), 138'357'544);
  EXPECT_EQ(parameters("alexnet"), 61'838'248);
  EXPECT_EQ(built_in_network("inception3", 1, 64).variables().size(), 190);
}

TEST(NetworkTableTest, StepsTakeTheirTimeAThirdForward) {
  for (const std::string& name : built_in_networks()) {
    const NetworkTable table = built_in_network(name, 0.3, 64);
    EXPECT_NEAR(table.step_seconds(), 0.3, 1e-12);
    EXPECT_NEAR(table.forward_seconds(), 0.1, 1e-12);
    EXPECT_NEAR(table.with_step_seconds(6).backward_seconds(), 4, 1e-12);
  }
  // fc6 is three quarters of VGG16's parameters, and less than a hundredth of its multiplications.
  const NetworkTable vgg = built_in_network("vgg16", 1, 64);
  const auto fc6 = std::ranges::find(vgg.layers, "fc6", &Layer::name);
  ASSERT_NE(fc6, vgg.layers.end());
  EXPECT_EQ(num_bytes(fc6->variables[0]), 411'041'792);
  EXPECT_LT(fc6->forward_seconds, 0.01 * vgg.forward_seconds());
}

TEST(NetworkTableTest, HotServersAreThoseOfTheStudy) {
  const auto variables = built_in_network("inception3", 1, 64).variables();
  const auto hottest = [&](int servers, PlacementRule rule) {
    return std::ranges::max(place_on_servers(variables, servers, rule).server_bytes) / 1e6;
  };
  EXPECT_NEAR(hottest(2, PlacementRule::kGreedy), 51.1, 0.05);
  EXPECT_NEAR(hottest(12, PlacementRule::kGreedy), 13.5, 0.05);
  EXPECT_NEAR(hottest(64, PlacementRule::kGreedy), 8.65, 0.005);
  EXPECT_NEAR(hottest(8, PlacementRule::kRoundRobin), 34.7, 0.05);
  EXPECT_NEAR(hottest(64, PlacementRule::kSharded), 95.27 / 64, 0.01);
}

TEST(NetworkTableTest, AFileIsReadAsItWasWritten) {
  const NetworkTable table = built_in_network("resnet50", 0.25, 32);
  const NetworkTable read = NetworkTable::from_json(table.to_json().dump(1));
  EXPECT_EQ(read.to_json(), table.to_json());
  EXPECT_EQ(read.batch, 32);
  EXPECT_EQ(read.bytes(), table.bytes());
}

TEST(NetworkTableTest, WrongFilesAreRefusedWithThePlace) {
  expect_error_containing([] { NetworkTable::from_json("{}"); }, ErrorCode::kInvalidArgument,
                          "[simulate] network: ");
  expect_error(
      [] {
        NetworkTable::from_json(
            R"({"name": "a", "batch": 1, "layers": [{"name": "x", "forward_seconds": -1, "backward_seconds": 1}]})");
      },
      "[simulate] network: layer 0: got -1 for forward_seconds; expected a number that is not "
      "negative, at most 1e+09");
  expect_error(
      [] {
        NetworkTable::from_json(
            R"({"name": "a", "batch": 1, "layers": [{"name": "x", "forward_seconds": 1, "backward_seconds": 1,
                "variables": [{"name": "w", "shape": [0]}]}]})");
      },
      "[simulate] network: layer 0: got size 0 of variable w; expected 1 or more");
  expect_error(
      [] {
        NetworkTable::from_json(
            R"({"name": "a", "batch": 1, "layers": [{"name": "x", "forward_seconds": 1, "backward_seconds": 1,
                "variables": [{"name": "w", "shape": [3000000, 3000000]}]}]})");
      },
      "[simulate] network: layer 0: got variable w of more than 1099511627776 elements; expected "
      "fewer");
  expect_error([] { NetworkTable::from_json(R"({"name": "a", "batch": 0, "layers": []})"); },
               "[simulate] network: got batch 0; expected 1 or more");
  expect_error([] { NetworkTable::from_json(R"({"name": "a", "batch": 1, "layers": []})"); },
               "[simulate] network: got 0 layers that take no time; expected forward_seconds and "
               "backward_seconds above 0");
  expect_error_containing(
      [] {
        NetworkTable::from_json(
            R"({"name": "a", "batch": 1, "layers": [{"name": "x", "forward_seconds": 1, "backward_seconds": 1}]})");
      },
      ErrorCode::kInvalidArgument, "[simulate] network: got no variables; expected a layer with");
  expect_error(
      [] { built_in_network("lenet", 1, 1); },
      "[simulate] network: got lenet; expected one of inception3, resnet50, vgg16, alexnet, or a "
      "file ending in .json");
}

TEST(LinksFileTest, MissingMembersAreFree) {
  const collective::LinkModel links =
      links_from_json(R"({"across_hosts": [40e-6, 1.25e9], "message_seconds": 3e-6})");
  EXPECT_EQ(links.across_hosts.bytes_per_second, 1.25e9);
  EXPECT_EQ(links.across_hosts.latency, 40e-6);
  EXPECT_EQ(links.in_host, collective::LinkModel::typical().in_host);
  EXPECT_EQ(links.message_seconds, 3e-6);
  EXPECT_EQ(links.reduce_bytes_per_second, 0);
  EXPECT_TRUE(links.pairs.empty());
}

TEST(LinksFileTest, ReadsWhatWasMeasured) {
  collective::LinkModel measured = collective::LinkModel::typical();
  measured.pairs.resize(4, {.latency = 1e-5, .bytes_per_second = 2e9});
  EXPECT_EQ(links_from_json(measured.to_json()), measured);
}

TEST(LinksFileTest, WrongFilesAreRefused) {
  expect_error([] { links_from_json(R"({"between_hosts": [0, 1]})"); },
               "[simulate] links: got member between_hosts; expected in_host, across_hosts, pairs, "
               "message_seconds, ranks_per_processor, reduce_bytes_per_second");
  expect_error_containing([] { links_from_json("{}"); }, ErrorCode::kInvalidArgument,
                          "across_hosts");
  expect_error_containing([] { links_from_json(R"({"across_hosts": [1]})"); },
                          ErrorCode::kInvalidArgument,
                          "got 1 numbers for a link; expected latency and bytes per second");
}

TEST(ChartTest, HasAnAxisForTheReplicasAndEachSeries) {
  const std::string svg =
      chart_svg("a < b", {{.name = "x", .replicas = {1, 100}, .values = {1, 0.5}},
                          {.name = "x", .replicas = {8}, .values = {0.75}, .points = true}});
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  EXPECT_NE(svg.find(">128</text>"), std::string::npos);
  EXPECT_NE(svg.find("<polyline"), std::string::npos);
  EXPECT_NE(svg.find("<circle"), std::string::npos);
}

TEST(ChartTest, HasAnAxisOfValuesAndTheirSpread) {
  const std::string svg = chart_svg(
      "x",
      {{.name = "x", .replicas = {1, 2}, .values = {40, 60}, .low = {30, 55}, .high = {50, 62}}},
      {.most = round_up(62), .percent = false, .across = "servers"});
  EXPECT_NE(svg.find(">80</text>"), std::string::npos);
  EXPECT_NE(svg.find(">servers</text>"), std::string::npos);
  EXPECT_EQ(svg.find(" %"), std::string::npos);
  EXPECT_NE(svg.find("y1=\"247.5\" x2=\"56.0\" y2=\"164.5\""), std::string::npos) << svg;
}

TEST(ChartTest, BarsAreCutIntoParts) {
  const std::string svg = bars_svg("x", {"a", "b"}, {{.name = "one", .parts = {3, 4.5}}}, "ms");
  // 8 ms are 300 pixels.
  EXPECT_NE(svg.find("x=\"250.0\" y=\"44.0\" width=\"112.5\""), std::string::npos) << svg;
  EXPECT_NE(svg.find("x=\"362.5\" y=\"44.0\" width=\"168.8\""), std::string::npos) << svg;
  EXPECT_NE(svg.find(">ms</text>"), std::string::npos);
}

TEST(ChartTest, AxesEndAtRoundNumbers) {
  EXPECT_DOUBLE_EQ(round_up(0), 1);
  EXPECT_DOUBLE_EQ(round_up(1), 1);
  EXPECT_DOUBLE_EQ(round_up(1.1), 1.5);
  EXPECT_DOUBLE_EQ(round_up(0.021), 0.025);
  EXPECT_DOUBLE_EQ(round_up(57702), 60000);
  EXPECT_DOUBLE_EQ(round_up(81), 100);
}

}  // namespace
}  // namespace strata::simulate
