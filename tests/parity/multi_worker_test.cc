// However the replicas are spread over processes: the same bits. Here the processes are threads on
// a network in memory; tests/multi_worker has real ones.

#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "parity/models.h"
#include "parity/noisy_net.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"
#include "strata/tensor/fingerprint.h"
#include "support/replicas.h"
#include "support/thread_cluster.h"

namespace strata::parity {
namespace {

constexpr int kReplicas = 8;
constexpr int kSteps = 12;

/// All replicas' tensors of a variable, one behind the other.
at::Tensor everywhere(const Strategy& strategy, const Variable& variable) {
  std::vector<at::Tensor> values;
  for (int r = 0; r < strategy.group().num_local_replicas(); ++r) {
    values.push_back(variable.on_replica(r).detach().unsqueeze(0));
  }
  return strategy.gather(PerReplica(std::move(values)), 0);
}

/// What a program does to weights and slots between steps.
using Between = std::function<void(const std::vector<Variable>&, optimizers::Optimizer&)>;

/// SHA-256 of all replicas' weights and moving statistics, the slots, and the losses.
std::string train(Strategy& strategy, const MakeOptimizer& make, Kind kind,
                  const Between& between = {}) {
  const bool noisy = kind == Kind::kCnn;
  std::vector<at::Tensor> state;
  const auto run = [&](const auto& net) {
    const auto optimizer = make(net.variables());
    const Batches batches = make_batches(kind, at::kFloat, kSteps, {20, 24, 17, 3});
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
            return loss.template item<double>();
          },
          batch);
      losses.push_back(strategy.reduce(ReduceOp::kSum, shares));
      if (between) between(net.variables(), *optimizer);
    }
    state.push_back(at::tensor(losses, at::kDouble));
    for (const auto& variables : {net.variables(), net.buffers()}) {
      for (const Variable& variable : variables) {
        state.push_back(everywhere(strategy, variable));
        state.push_back(variable.value().detach());
      }
    }
    for (const auto& [name, slot] : optimizer->slots()) state.push_back(slot);
  };
  if (noisy) {
    run(strategy.replicate([] { return std::make_shared<NoisyNet>(); }));
  } else {
    run(strategy.replicate([kind] { return std::make_shared<Net>(kind, at::kFloat); }));
  }
  return tensor::fingerprint(state);
}

/// What is run on every worker, or in one process. @return SHA-256.
using Training = std::function<std::string(Strategy&)>;

std::string one_process(const Training& training) {
  set_logical_devices("cpu", kReplicas);
  MirroredStrategy strategy(
      {.devices = cpus(kReplicas), .seed = 5, .permits = 2, .threads_per_replica = 1});
  return training(strategy);
}

std::string one_process(const MakeOptimizer& make, Kind kind, const Between& between = {}) {
  return one_process([&](Strategy& strategy) { return train(strategy, make, kind, between); });
}

/// As many workers as there are numbers, with so many replicas each. All must end alike.
std::string workers(const std::vector<int>& replicas, const Training& training,
                    const collective::CommunicationOptions& communication = {}) {
  set_logical_devices("cpu", kReplicas);
  test::ThreadCluster cluster(
      test::ThreadCluster::spec_of({{"worker", static_cast<int>(replicas.size())}}));
  std::mutex mutex;
  std::vector<std::string> hashes;
  test::expect_all_ok(cluster.run([&](test::ThreadCluster::Task& task) {
    MultiWorkerMirroredStrategy strategy(task.taking_part(MultiWorkerMirroredOptions{
        .devices = cpus(replicas[static_cast<size_t>(task.id.index)]),
        .seed = 5 + static_cast<uint64_t>(task.id.index),  // the chief's counts
        .communication_options = communication,
        .permits = 1,
        .threads_per_replica = 1}));
    const std::string hash = training(strategy);
    const std::lock_guard lock(mutex);
    hashes.push_back(hash);
  }));
  for (const std::string& hash : hashes) EXPECT_EQ(hash, hashes[0]);
  return hashes.empty() ? "nobody" : hashes[0];
}

std::string workers(const std::vector<int>& replicas, const MakeOptimizer& make, Kind kind,
                    const collective::CommunicationOptions& communication = {},
                    const Between& between = {}) {
  return workers(
      replicas, [&](Strategy& strategy) { return train(strategy, make, kind, between); },
      communication);
}

MakeOptimizer adam(double clipnorm = 0) {
  return optimizer_case<optimizers::Adam>(
             "", optimizers::AdamOptions{.learning_rate = 0.01, .clipnorm = clipnorm})
      .make;
}

TEST(MultiWorkerTest, SpreadingReplicasDoesNotChangeABit) {
  const std::string expected = one_process(adam(), Kind::kCnn);
  for (const std::vector<int>& replicas :
       {std::vector<int>{4, 4}, {3, 3, 2}, {2, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 1}, {7, 1}}) {
    EXPECT_EQ(workers(replicas, adam(), Kind::kCnn), expected) << replicas.size() << " workers";
  }
}

TEST(MultiWorkerTest, PacksAndClippingDoNotChangeABit) {
  const std::string expected = one_process(adam(0.1), Kind::kMlp);
  EXPECT_EQ(workers({3, 5}, adam(0.1), Kind::kMlp, {.bytes_per_pack = 1000}), expected);
  EXPECT_EQ(workers({3, 5}, adam(0.1), Kind::kMlp), expected);
}

TEST(MultiWorkerTest, OverlapDoesNotChangeABit) {
  for (const Kind kind : {Kind::kCnn, Kind::kMlp, Kind::kSparseEmbedding}) {
    const std::string expected = one_process(adam(), kind);
    for (const int64_t pack : {0, 100, 100000}) {
      EXPECT_EQ(workers({3, 3, 2}, adam(), kind, {.bytes_per_pack = pack, .overlap = true}),
                expected)
          << name_of(kind) << ", packs of " << pack;
    }
  }
}

TEST(MultiWorkerTest, SparseGradientsStaySparse) {
  const std::string expected = one_process(adam(), Kind::kSparseEmbedding);
  EXPECT_EQ(workers({3, 3, 2}, adam(), Kind::kSparseEmbedding), expected);
}

TEST(MultiWorkerTest, NoOptimizerMindsTheSpread) {
  for (const OptimizerCase& each : more_optimizer_cases()) {
    EXPECT_EQ(workers({5, 3}, each.make, Kind::kMlp), one_process(each.make, Kind::kMlp))
        << each.name;
  }
}

// Each process reads, and writes what it has read: nobody may see the other's writing.
TEST(MultiWorkerTest, WhatEveryProcessDoesBetweenStepsHappensOnce) {
  const Between change = [](const std::vector<Variable>& variables,
                            optimizers::Optimizer& optimizer) {
    for (Variable variable : variables) variable.assign(variable.value().detach() * 1.01);
    const auto slots = optimizer.slots();
    for (size_t i = 0; i < slots.size(); ++i) optimizer.set_slot(i, slots[i].second * 0.9);
  };
  const std::string expected = one_process(adam(), Kind::kMlp, change);
  EXPECT_NE(expected, one_process(adam(), Kind::kMlp));
  EXPECT_EQ(workers({3, 3, 2}, adam(), Kind::kMlp, {}, change), expected);
  EXPECT_EQ(workers({3, 3, 2}, adam(), Kind::kMlp, {.implementation = "WIRE"}, change), expected);
}

// Two optimizers over the same variables: the first has moved them, and moves them again.
TEST(MultiWorkerTest, OptimizersMayHaveVariablesInCommon) {
  const auto train_by_two = [](Strategy& strategy) {
    auto net = strategy.replicate([] { return std::make_shared<Net>(Kind::kMlp, at::kFloat); });
    optimizers::Adam first(net.variables(), {.learning_rate = 0.01});
    optimizers::Sgd second(net.variables(), {.learning_rate = 0.1, .momentum = 0.9});
    const Batches batches = make_batches(Kind::kMlp, at::kFloat, kSteps, {24});
    for (const auto& batch : strategy.distribute(as_dataset(batches))) {
      strategy.run(
          [&](const data::Example& part) {
            for (optimizers::Optimizer* each :
                 std::initializer_list<optimizers::Optimizer*>{&second, &first}) {
              each->minimize(
                  compute_average_loss(losses::sparse_categorical_crossentropy(
                                           part.y(), net->forward(part.x()), {.from_logits = true}),
                                       24));
            }
          },
          batch);
    }
    std::vector<at::Tensor> state;
    for (const Variable& variable : net.variables()) state.push_back(variable.value().detach());
    for (const auto& [name, slot] : first.slots()) state.push_back(slot);
    for (const auto& [name, slot] : second.slots()) state.push_back(slot);
    return tensor::fingerprint(state);
  };
  const std::string expected = one_process(train_by_two);
  for (const std::vector<int>& replicas : {std::vector<int>{4, 4}, {1, 2, 5}}) {
    EXPECT_EQ(workers(replicas, train_by_two), expected);
  }
}

}  // namespace
}  // namespace strata::parity
