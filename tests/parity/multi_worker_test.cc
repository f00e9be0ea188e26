// However the replicas are spread over processes: the same bits. Here the processes are threads on
// a network in memory; tests/multi_worker has real ones.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "parity/models.h"
#include "parity/noisy_net.h"
#include "runtime/replica_group.h"
#include "strata/optim/loss_scale_optimizer.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"
#include "strata/tensor/fingerprint.h"
#include "support/expect_error.h"
#include "support/replicas.h"
#include "support/thread_cluster.h"

namespace strata::parity {
namespace {

constexpr int kAllReplicas = 8;
constexpr int kWorkerSteps = 12;

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
    const Batches batches = make_batches(kind, at::kFloat, kWorkerSteps, {20, 24, 17, 3});
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
  set_logical_devices("cpu", kAllReplicas);
  MirroredStrategy strategy({.devices = cpus(kAllReplicas),
                             .seed = 5,
                             .replicas = {.permits = 2, .threads_per_replica = 1}});
  return training(strategy);
}

std::string one_process(const MakeOptimizer& make, Kind kind, const Between& between = {}) {
  return one_process([&](Strategy& strategy) { return train(strategy, make, kind, between); });
}

/// As many workers as there are numbers, with so many replicas each. All must end alike.
std::string workers(const std::vector<int>& replicas, const Training& training,
                    const std::function<MultiWorkerMirroredOptions(int worker)>& options_of) {
  set_logical_devices("cpu", kAllReplicas);
  test::ThreadCluster cluster(
      test::ThreadCluster::spec_of({{"worker", static_cast<int>(replicas.size())}}));
  std::mutex mutex;
  std::vector<std::string> hashes;
  test::expect_all_ok(cluster.run([&](test::ThreadCluster::Task& task) {
    MultiWorkerMirroredOptions options = options_of(task.id.index);
    options.devices = cpus(replicas[static_cast<size_t>(task.id.index)]);
    options.seed = 5 + static_cast<uint64_t>(task.id.index);  // the chief's counts
    options.replicas.permits = 1;
    options.replicas.threads_per_replica = 1;
    MultiWorkerMirroredStrategy strategy(task.taking_part(std::move(options)));
    const std::string hash = training(strategy);
    const std::lock_guard lock(mutex);
    hashes.push_back(hash);
  }));
  for (const std::string& hash : hashes) EXPECT_EQ(hash, hashes[0]);
  return hashes.empty() ? "nobody" : hashes[0];
}

std::string workers(const std::vector<int>& replicas, const Training& training,
                    const MultiWorkerMirroredOptions& options = {}) {
  return workers(replicas, training, [&](int) { return options; });
}

std::string workers(const std::vector<int>& replicas, const MakeOptimizer& make, Kind kind,
                    const MultiWorkerMirroredOptions& options = {}, const Between& between = {}) {
  return workers(
      replicas, [&](Strategy& strategy) { return train(strategy, make, kind, between); }, options);
}

/// Over the wire: who shares memory has one copy of the state in any case.
MultiWorkerMirroredOptions sharded(int64_t bytes_per_pack = 0) {
  return {.communication_options = {.implementation = "WIRE", .bytes_per_pack = bytes_per_pack},
          .shard_optimizer_state = true};
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

// The other tests' models are small: their replicas have copies of the parameters.
TEST(MultiWorkerTest, StorageDoesNotChangeABit) {
  const std::optional<bool> storages[] = {true, std::nullopt, false};
  for (const Kind kind : {Kind::kCnn, Kind::kSparseEmbedding}) {
    const std::string expected = one_process(adam(), kind);
    for (const bool share_storage : {true, false}) {
      EXPECT_EQ(workers({3, 3, 2}, adam(), kind, {.replicas = {.share_storage = share_storage}}),
                expected)
          << name_of(kind) << (share_storage ? ", shared" : ", unshared");
    }
    const auto mixed = [&](int worker) {
      return MultiWorkerMirroredOptions{.replicas = {.share_storage = storages[worker]}};
    };
    EXPECT_EQ(
        workers(
            {3, 3, 2}, [&](Strategy& strategy) { return train(strategy, adam(), kind); }, mixed),
        expected)
        << name_of(kind) << ", workers of three kinds";
  }
}

TEST(MultiWorkerTest, PacksAndClippingDoNotChangeABit) {
  const std::string expected = one_process(adam(0.1), Kind::kMlp);
  EXPECT_EQ(
      workers({3, 5}, adam(0.1), Kind::kMlp, {.communication_options = {.bytes_per_pack = 1000}}),
      expected);
  EXPECT_EQ(workers({3, 5}, adam(0.1), Kind::kMlp), expected);
}

TEST(MultiWorkerTest, OverlapDoesNotChangeABit) {
  for (const Kind kind : {Kind::kCnn, Kind::kMlp, Kind::kSparseEmbedding}) {
    const std::string expected = one_process(adam(), kind);
    for (const int64_t pack : {0, 100, 100000}) {
      EXPECT_EQ(workers({3, 3, 2}, adam(), kind,
                        {.communication_options = {.bytes_per_pack = pack, .overlap = true}}),
                expected)
          << name_of(kind) << ", packs of " << pack;
    }
  }
}

MultiWorkerMirroredOptions compressed(const std::string& dtype) {
  return {.communication_options = {.gradient_compression = dtype}};
}

TEST(MultiWorkerTest, CompressedGradientsHaveTheSameBitsHoweverReplicasAreSpread) {
  const std::string uncompressed = one_process(adam(), Kind::kCnn);
  for (const Kind kind : {Kind::kCnn, Kind::kSparseEmbedding}) {
    for (const char* const dtype : {"BFLOAT16", "FLOAT16"}) {
      SCOPED_TRACE(testing::Message() << name_of(kind) << ", " << dtype);
      const std::string expected = workers({4, 4}, adam(), kind, compressed(dtype));
      EXPECT_NE(expected, uncompressed);
      EXPECT_EQ(workers({3, 3, 2}, adam(), kind, compressed(dtype)), expected);
      MultiWorkerMirroredOptions other = compressed(dtype);
      other.communication_options.implementation = "WIRE";
      EXPECT_EQ(workers({2, 2, 2, 2}, adam(), kind, other), expected) << "messages";
      other.shard_optimizer_state = true;
      EXPECT_EQ(workers({3, 3, 2}, adam(), kind, other), expected) << "sharded";
      other.shard_optimizer_state = false;
      other.communication_options.overlap = true;
      other.communication_options.bytes_per_pack = 100;
      EXPECT_EQ(workers({3, 3, 2}, adam(), kind, other), expected) << "beside backward";
    }
  }
}

// w -= sum of replicas' c, each rounded, the sum rounded.
TEST(MultiWorkerTest, CompressedGradientsAreRoundedOnEachReplicaAndSummedInFloats) {
  const at::Tensor given = at::randn({3, 1000}, at::make_generator<at::CPUGeneratorImpl>(7));
  for (const auto& [word, dtype] :
       {std::pair{"BFLOAT16", at::kBFloat16}, std::pair{"FLOAT16", at::kHalf}}) {
    const at::Tensor rounded = given.to(dtype).to(at::kFloat);
    // In the order of the tree over replica ids.
    const at::Tensor sum = ((rounded[0] + rounded[1]) + rounded[2]).to(dtype).to(at::kFloat);
    ASSERT_FALSE(sum.equal(given.sum(0)));
    const Training training = [&](Strategy& strategy) {
      const auto weight = strategy.scope([] { return Variable(at::zeros({1000})); });
      optimizers::SGD sgd({weight}, {.learning_rate = 1.0});
      strategy.run([&] {
        const int id = get_replica_context()->replica_id_in_sync_group();
        sgd.minimize((weight.value() * given[id]).sum());
      });
      EXPECT_TRUE(weight.value().detach().equal(-sum)) << word;
      return tensor::fingerprint({weight.value().detach()});
    };
    workers({2, 1}, training, compressed(word));
    workers({1, 1, 1}, training, compressed(word));
  }
}

// The sum of two gradients of 1, times the scale, is infinite as float16.
TEST(MultiWorkerTest, TheLossScaleLearnsOfCompressedGradientsThatOverflow) {
  const Training training = [](Strategy& strategy) {
    const auto weight = strategy.scope([] { return Variable(at::ones({4})); });
    optimizers::LossScaleOptimizer scaled(optimizers::SGD({weight}, {.learning_rate = 1.0}),
                                          {.initial_scale = 64000});
    strategy.run([&] { scaled.minimize(weight.value().sum()); });
    EXPECT_TRUE(weight.value().detach().equal(at::ones({4})));
    EXPECT_EQ(scaled.loss_scale(), 32000);
    strategy.run([&] { scaled.minimize(weight.value().sum()); });
    EXPECT_TRUE(weight.value().detach().equal(-at::ones({4}))) << weight.value();
    return tensor::fingerprint({weight.value().detach()});
  };
  workers({1, 1}, training, compressed("FLOAT16"));
}

TEST(MultiWorkerTest, AnUnknownCompressionIsRefused) {
  expect_error(
      [] {
        MirroredStrategy strategy(
            {.communication_options = compressed("INT8").communication_options});
      },
      "[mirrored_strategy] communication_options: got gradient_compression='INT8'; expected "
      "'NONE', "
      "'BFLOAT16' or 'FLOAT16'");
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
  EXPECT_EQ(workers({3, 3, 2}, adam(), Kind::kMlp, {.replicas = {.share_storage = true}}, change),
            expected);
  EXPECT_EQ(workers({3, 3, 2}, adam(), Kind::kMlp, {}, change), expected);
  EXPECT_EQ(workers({3, 3, 2}, adam(), Kind::kMlp,
                    {.communication_options = {.implementation = "WIRE"}}, change),
            expected);
  EXPECT_EQ(workers({3, 3, 2}, adam(), Kind::kMlp, sharded(), change), expected);
}

TEST(MultiWorkerTest, ShardingTheOptimizersStateDoesNotChangeABit) {
  for (const Kind kind : {Kind::kCnn, Kind::kMlp, Kind::kSparseEmbedding}) {
    const std::string expected = one_process(adam(), kind);
    for (const std::vector<int>& replicas : {std::vector<int>{4, 4}, {3, 3, 2}, {7, 1}}) {
      EXPECT_EQ(workers(replicas, adam(), kind, sharded()), expected)
          << name_of(kind) << ", " << replicas.size() << " workers";
    }
    MultiWorkerMirroredOptions one_storage = sharded(1000);
    one_storage.replicas.share_storage = true;
    EXPECT_EQ(workers({3, 3, 2}, adam(), kind, one_storage), expected) << name_of(kind);
  }
  EXPECT_EQ(workers({3, 5}, adam(0.1), Kind::kMlp, sharded()), one_process(adam(0.1), Kind::kMlp))
      << "clipped";
  for (const OptimizerCase& each : more_optimizer_cases()) {
    EXPECT_EQ(workers({5, 3}, each.make, Kind::kMlp, sharded()), one_process(each.make, Kind::kMlp))
        << each.name;
  }
}

/// Of this process, in bytes.
int64_t resident_memory() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  statm >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST(MultiWorkerTest, ShardedStateIsThereOnce) {
  constexpr int64_t kElements = 1 << 20;
  constexpr int64_t kVariables = 8;
  constexpr auto kSlotBytes = static_cast<int64_t>(sizeof(float)) * kElements * kVariables;
  std::atomic<int64_t> used = 0;
  const Training training = [&](Strategy& strategy) {
    const auto weights = strategy.scope([] {
      std::vector<Variable> made;
      for (int i = 0; i < kVariables; ++i) made.emplace_back(at::ones({kElements}));
      return made;
    });
    optimizers::Adam adam(weights, {.learning_rate = 0.1, .amsgrad = true});
    for (int step = 0; step < 3; ++step) {
      strategy.run([&] {
        if (step == 2) {  // where everybody is between two steps, and holds no gradients
          const auto meet = [] {
            get_replica_context()->all_reduce(ReduceOp::kSum, at::ones({1}));
          };
          meet();
          used = resident_memory();
          meet();
        }
        at::Tensor loss = weights[0].value().sum();
        for (int i = 1; i < kVariables; ++i) loss = loss + weights[i].value().sum();
        adam.minimize(loss);
      });
    }
    std::vector<at::Tensor> values;
    for (const Variable& weight : weights) values.push_back(weight.value().detach());
    return tensor::fingerprint(values);
  };
  const int64_t pack = kElements * static_cast<int64_t>(sizeof(float));
  MultiWorkerMirroredOptions options = sharded(pack);
  options.shard_optimizer_state = false;
  const std::string expected = workers({1, 1}, training, options);
  EXPECT_EQ(workers({1, 1}, training, options), expected);  // allocators keep what the first used
  const int64_t whole = used;                               // three slots on two workers
  EXPECT_EQ(workers({1, 1}, training, sharded(pack)), expected);
  // It saves three. Allocators keep one worker's gradients, or, where their backwards met, both's.
  EXPECT_LT(used, whole - kSlotBytes * 3 / 2);
}

// What stands around a rule: accumulators, which are clipped as a whole, and moving averages.
TEST(MultiWorkerTest, ShardingKeepsAccumulatorsAndAverages) {
  for (const double clipnorm : {0.0, 0.1}) {
    const MakeOptimizer make = optimizer_case<optimizers::Adam>(
                                   "", optimizers::AdamOptions{.learning_rate = 0.01,
                                                               .clipnorm = clipnorm,
                                                               .use_ema = true,
                                                               .ema_overwrite_frequency = 2,
                                                               .gradient_accumulation_steps = 3})
                                   .make;
    EXPECT_EQ(workers({3, 3, 2}, make, Kind::kMlp, sharded()), one_process(make, Kind::kMlp))
        << "clipped by " << clipnorm;
  }
  const Between finalize = [](const std::vector<Variable>&, optimizers::Optimizer& optimizer) {
    optimizer.finalize_variable_values();
  };
  const MakeOptimizer average =
      optimizer_case<optimizers::Adam>(
          "", optimizers::AdamOptions{.learning_rate = 0.01, .use_ema = true})
          .make;
  EXPECT_EQ(workers({3, 3, 2}, average, Kind::kMlp, sharded(), finalize),
            one_process(average, Kind::kMlp, finalize));
}

// Two optimizers over the same variables: the first has moved them, and moves them again.
TEST(MultiWorkerTest, OptimizersMayHaveVariablesInCommon) {
  const auto train_by_two = [](Strategy& strategy) {
    auto net = strategy.replicate([] { return std::make_shared<Net>(Kind::kMlp, at::kFloat); });
    optimizers::Adam first(net.variables(), {.learning_rate = 0.01});
    optimizers::SGD second(net.variables(), {.learning_rate = 0.1, .momentum = 0.9});
    const Batches batches = make_batches(Kind::kMlp, at::kFloat, kWorkerSteps, {24});
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
    EXPECT_EQ(workers(replicas, train_by_two, {.replicas = {.share_storage = true}}), expected);
  }
}

}  // namespace
}  // namespace strata::parity
