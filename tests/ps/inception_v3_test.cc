// The published collapse of parameter servers, InceptionV3 at 128 GPUs, is the hot server's: with
// TensorFlow's placement one 8 MB variable lies whole on one of them. Here are its figures, and
// what automatic placement makes of the same variables.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "ps/study_inception_v3.h"
#include "strata/ps/placement.h"

namespace strata::ps {
namespace {

double hottest_megabytes(int num_servers, PlacementStrategy (*strategy)(int)) {
  const Placement placement = place(study_inception_v3(), num_servers, {.strategy = strategy});
  return static_cast<double>(std::ranges::max(placement.server_bytes)) / 1e6;
}

TEST(InceptionV3PlacementTest, StudysVariablesAreThose) {
  const auto variables = study_inception_v3();
  EXPECT_EQ(variables.size(), 190);
  int64_t parameters = 0;
  int64_t largest = 0;
  for (const VariableSpec& variable : variables) {
    parameters += num_elements(variable);
    largest = std::max(largest, num_bytes(variable));
  }
  EXPECT_EQ(parameters, 23'817'352);
  EXPECT_EQ(largest, 8'192'000);
}

TEST(InceptionV3PlacementTest, GreedyReproducesPublishedHotServers) {
  EXPECT_NEAR(hottest_megabytes(1, greedy), 95.27, 0.005);
  EXPECT_NEAR(hottest_megabytes(2, greedy), 51.1, 0.05);
  EXPECT_NEAR(hottest_megabytes(4, greedy), 28.6, 0.05);
  EXPECT_NEAR(hottest_megabytes(12, greedy), 13.5, 0.05);
  EXPECT_NEAR(hottest_megabytes(32, greedy), 9.39, 0.005);
  EXPECT_NEAR(hottest_megabytes(64, greedy), 8.65, 0.005);
  EXPECT_NEAR(hottest_megabytes(116, greedy), 8.19, 0.005);
  EXPECT_NEAR(hottest_megabytes(128, greedy), 8.19, 0.005);
}

TEST(InceptionV3PlacementTest, RoundRobinReproducesPublishedHotServers) {
  EXPECT_NEAR(hottest_megabytes(8, round_robin), 34.7, 0.05);
  EXPECT_NEAR(hottest_megabytes(12, round_robin), 19.2, 0.05);
  EXPECT_NEAR(hottest_megabytes(16, round_robin), 17.6, 0.05);
}

TEST(InceptionV3PlacementTest, NoServerIsHotAutomatically) {
  const auto variables = study_inception_v3();
  for (const int num_servers : {1, 2, 4, 12, 32, 64, 116, 128}) {
    SCOPED_TRACE(num_servers);
    const Placement placement = place(variables, num_servers);
    EXPECT_LE(placement.imbalance(), 1.001);
    // No more messages than needed: each server but the first begins at one cut.
    EXPECT_LE(placement.pieces.size(), variables.size() + static_cast<size_t>(num_servers) - 1);
    const double mean = 95'269'408.0 / num_servers;
    for (const int64_t bytes : placement.server_bytes) EXPECT_NEAR(bytes, mean, 64);
  }
}

}  // namespace
}  // namespace strata::ps
