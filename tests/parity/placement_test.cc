// Where replicas live is nobody's business: the same bits with any number of permits, shared or
// unshared storage, packs of any size, and twice.

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "parity/models.h"
#include "parity/noisy_net.h"
#include "strata/tensor/fingerprint.h"
#include "support/replicas.h"

namespace strata::parity {
namespace {

constexpr int kPlacedReplicas = 8;
constexpr int kPlacementSteps = 50;

/// SHA-256 of every replica's weights and moving statistics, the slots, and the losses.
std::string hash_after_training(const MirroredOptions& options, const MakeOptimizer& make,
                                int steps = kPlacementSteps) {
  MirroredStrategy strategy(options);
  const auto net = strategy.replicate([] { return std::make_shared<NoisyNet>(); });
  const auto optimizer = make(net.variables());
  const Batches batches = make_batches(Kind::kCnn, at::kFloat, steps, {20, 24, 17});
  std::vector<double> losses;
  size_t step = 0;
  for (const auto& batch : strategy.distribute(as_dataset(batches))) {
    const int64_t rows = batches[step++].num_rows();
    const PerReplica<double> shares = strategy.run(
        [&](const data::Example& part) {
          const at::Tensor loss =
              compute_average_loss(losses::sparse_categorical_crossentropy(
                                       part.y(), net->forward(part.x()), {.from_logits = true}),
                                   rows);
          optimizer->minimize(loss);
          return loss.item<double>();
        },
        batch);
    losses.push_back(strategy.reduce(ReduceOp::kSum, shares));
  }
  std::vector<at::Tensor> state = {at::tensor(losses, at::kDouble)};
  for (const auto& variables : {net.variables(), net.buffers()}) {
    for (const Variable& variable : variables) {
      for (int r = 0; r < kPlacedReplicas; ++r) state.push_back(variable.on_replica(r).detach());
      state.push_back(variable.value().detach());
    }
  }
  for (const auto& [name, slot] : optimizer->slots()) state.push_back(slot);
  return tensor::fingerprint(state);
}

std::string hash_after_training(const MirroredOptions& options, double clipnorm = 0) {
  return hash_after_training(
      options, optimizer_case<optimizers::Adam>(
                   "", optimizers::AdamOptions{.learning_rate = 0.01, .clipnorm = clipnorm})
                   .make);
}

MirroredOptions options_with(int permits, bool share_storage) {
  set_logical_devices("cpu", kPlacedReplicas);
  return {
      .devices = cpus(kPlacedReplicas),
      .seed = 5,
      .replicas = {.permits = permits, .threads_per_replica = 1, .share_storage = share_storage}};
}

std::string print(const std::string& what, std::string hash) {
  std::printf("%s  %s\n", hash.c_str(), what.c_str());
  return hash;
}

TEST(PlacementTest, PermitsAndStorageDoNotChangeABit) {
  const std::string expected = print("1 permit", hash_after_training(options_with(1, true)));
  for (const int permits : {1, 2, 3, 8}) {
    for (const bool share_storage : {true, false}) {
      for (int round = 0; round < (permits == 2 ? 2 : 1); ++round) {
        EXPECT_EQ(print(str_cat(permits, " permits, ", share_storage ? "shared" : "unshared",
                                " storage, round ", round),
                        hash_after_training(options_with(permits, share_storage))),
                  expected);
      }
    }
  }
}

TEST(PlacementTest, NoOptimizerMindsPermitsOrStorage) {
  for (const OptimizerCase& each : more_optimizer_cases()) {
    const std::string expected = hash_after_training(options_with(1, true), each.make, 12);
    EXPECT_EQ(hash_after_training(options_with(3, false), each.make, 12), expected) << each.name;
  }
}

TEST(PlacementTest, PacksOfGradientsDoNotChangeABit) {
  const std::string expected =
      print("shared memory, no packs", hash_after_training(options_with(0, true)));
  for (const bool share_storage : {true, false}) {
    MirroredOptions options = options_with(3, share_storage);
    const char* storage = share_storage ? ", shared storage" : ", unshared storage";
    options.cross_device_ops = std::make_shared<ReductionToOneDevice>();
    EXPECT_EQ(print(str_cat("ReductionToOneDevice", storage), hash_after_training(options)),
              expected);
    for (const int packs : {0, 1, 2, 5}) {
      options.cross_device_ops =
          std::make_shared<HierarchicalCopyAllReduce>(PackingOptions{.num_packs = packs});
      EXPECT_EQ(print(str_cat("HierarchicalCopyAllReduce, ", packs, " packs", storage),
                      hash_after_training(options)),
                expected);
    }
  }
}

TEST(PlacementTest, ClippingByNormDoesNotChangeABit) {
  const std::string expected =
      print("clipnorm, 1 permit", hash_after_training(options_with(1, true), 0.1));
  EXPECT_EQ(print("clipnorm, 8 permits, unshared storage",
                  hash_after_training(options_with(8, false), 0.1)),
            expected);
  EXPECT_NE(expected, hash_after_training(options_with(1, true)));
}

TEST(PlacementTest, TheSeedDoesChangeBits) {
  MirroredOptions options = options_with(2, true);
  const std::string expected = hash_after_training(options);
  options.seed = 6;
  EXPECT_NE(hash_after_training(options), expected);
}

}  // namespace
}  // namespace strata::parity
