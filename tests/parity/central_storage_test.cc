// One copy of the variables trains as a copy on each replica does, in float64: CPU replicas that
// work on the one copy, and replicas with mirrors of it, as GPUs have.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>

#include "parity/models.h"
#include "strata/strategies/central_storage_strategy.h"
#include "support/mirrors_on_cpu.h"
#include "support/replicas.h"

namespace strata::parity {
namespace {

constexpr int kCentralSteps = 12;
const std::vector<int64_t> kCentralBatchSizes = {13, 7, 16, 2, 11};

double apart(const Outcome& a, const Outcome& b) {
  double most = std::max({difference(a.weights, b.weights), difference(a.slots, b.slots),
                          difference(a.buffers, b.buffers)});
  EXPECT_EQ(a.losses.size(), b.losses.size());
  for (size_t i = 0; i < a.losses.size() && i < b.losses.size(); ++i)
    most = std::max(most, std::abs(a.losses[i] - b.losses[i]));
  return most;
}

void expect_central_parity(Kind kind) {
  set_logical_devices("cpu", 8);
  const Batches batches = make_batches(kind, at::kDouble, kCentralSteps, kCentralBatchSizes);
  std::vector<OptimizerCase> cases = optimizer_cases();
  if (kind == Kind::kMlp || kind == Kind::kSparseEmbedding)
    std::ranges::move(more_optimizer_cases(), std::back_inserter(cases));
  double shared_most = 0, mirrors_most = 0;
  for (const int replicas : {1, 2, 3}) {
    MirroredStrategy mirrored({.devices = cpus(replicas), .replicas = {.threads_per_replica = 1}});
    CentralStorageStrategy central(
        {.compute_devices = cpus(replicas), .replicas = {.threads_per_replica = 1}});
    MirrorsOnCpu mirrors(replicas);
    for (const OptimizerCase& each : cases) {
      const auto train = [&](Strategy& strategy) {
        return train_under(strategy, kind, at::kDouble, batches, each, Form::kWeight);
      };
      const Outcome expected = train(mirrored);
      const double shared = apart(train(central), expected);
      const double mirror = apart(train(mirrors), expected);
      EXPECT_LE(shared, 1e-7) << each.name << ", " << replicas << " replicas";
      EXPECT_LE(mirror, 1e-7) << each.name << ", " << replicas << " replicas, mirrors";
      shared_most = std::max(shared_most, shared);
      mirrors_most = std::max(mirrors_most, mirror);
    }
  }
  std::printf("float64 %-18s %zu optimizers: one copy %.1e, mirrors %.1e apart (bar 1e-07)\n",
              name_of(kind), cases.size(), shared_most, mirrors_most);
}

TEST(CentralStorageParityTest, MlpEqualsMirrored) { expect_central_parity(Kind::kMlp); }
TEST(CentralStorageParityTest, BatchNormalizationEqualsMirrored) {
  expect_central_parity(Kind::kCnn);
}
TEST(CentralStorageParityTest, EmbeddingEqualsMirrored) { expect_central_parity(Kind::kEmbedding); }
TEST(CentralStorageParityTest, SparseGradientsEqualMirrored) {
  expect_central_parity(Kind::kSparseEmbedding);
}

// libtorch's BatchNormalization: each replica's statistics are its own, outside their mean.
TEST(CentralStorageParityTest, LocalStatisticsEqualMirrored) {
  set_logical_devices("cpu", 8);
  const Batches batches = make_batches(Kind::kCnn, at::kDouble, kCentralSteps, {12, 9, 15});
  const auto train = [&](Strategy& strategy) {
    const auto net = strategy.replicate(
        [] { return std::make_shared<Net>(Kind::kCnn, at::kDouble, /*plain=*/true); });
    optimizers::Adam adam(net.variables(), {.learning_rate = 0.01});
    for (const auto& batch : strategy.distribute(as_dataset(batches))) {
      strategy.run(
          [&](const data::Example& part) {
            train_step(*net, adam, part, part.num_rows(), Form::kWeight);
          },
          batch);
    }
    return outcome_of(net, adam);
  };
  MirroredStrategy mirrored({.devices = cpus(3), .replicas = {.threads_per_replica = 1}});
  CentralStorageStrategy central(
      {.compute_devices = cpus(3), .replicas = {.threads_per_replica = 1}});
  MirrorsOnCpu mirrors(3);
  const Outcome expected = train(mirrored);
  EXPECT_LE(apart(train(central), expected), 1e-7);
  EXPECT_LE(apart(train(mirrors), expected), 1e-7);
}

// A dtype that the flat pass does not know: one copy has one set of slots, and is updated once.
TEST(CentralStorageParityTest, Bfloat16IsUpdatedOnce) {
  set_logical_devices("cpu", 8);
  const Batches batches = make_batches(Kind::kMlp, at::kBFloat16, 6, {12, 9});
  const OptimizerCase adam =
      optimizer_case<optimizers::Adam>("adam", optimizers::AdamOptions{.learning_rate = 0.01});
  MirroredStrategy mirrored({.devices = cpus(3), .replicas = {.threads_per_replica = 1}});
  CentralStorageStrategy central(
      {.compute_devices = cpus(3), .replicas = {.threads_per_replica = 1}});
  MirrorsOnCpu mirrors(3);
  const Outcome expected =
      train_under(mirrored, Kind::kMlp, at::kBFloat16, batches, adam, Form::kWeight);
  for (Strategy* strategy : {static_cast<Strategy*>(&central), static_cast<Strategy*>(&mirrors)}) {
    const Outcome outcome =
        train_under(*strategy, Kind::kMlp, at::kBFloat16, batches, adam, Form::kWeight);
    EXPECT_EQ(difference(outcome.weights, expected.weights), 0) << strategy->name();
  }
}

}  // namespace
}  // namespace strata::parity
