// Cards that share an optimizer's state out: the bits of cards that each have all of it, in 1/N of the
// slots' memory.

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "gpu/emulated/memory.h"
#include "gpu/emulated/order.h"
#include "gpu/gpus.h"
#include "parity/models.h"
#include "strata/checkpoint/checkpoint.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/tensor/fingerprint.h"
#include "support/temp_folder.h"

namespace strata::parity {
namespace {

/// Between steps.
using Between = std::function<void(const std::vector<Variable>&, optimizers::Optimizer&)>;

std::vector<at::Tensor> state_of(Strategy& strategy, const Replicated<Net>& net,
                                 const optimizers::Optimizer& optimizer) {
  std::vector<at::Tensor> state;
  for (const Variable& variable : net.variables()) {
    for (int local = 0; local < strategy.num_replicas_in_sync(); ++local) {
      state.push_back(variable.on_replica(local).detach().cpu());
    }
  }
  for (const auto& [name, slot] : optimizer.slots()) state.push_back(slot.cpu());
  return state;
}

class Training {
 public:
  Training(Strategy& strategy, const MakeOptimizer& make, Kind kind)
      : strategy_(strategy),
        kind_(kind),
        net_(strategy.replicate([&] { return std::make_shared<Net>(kind, at::kFloat); })),
        optimizer_(make(net_.variables())) {}

  void run(int steps, const Between& between = {}) {
    const Batches batches = make_batches(kind_, at::kFloat, steps, {13, 7, 16, 3});
    size_t step = 0;
    for (const auto& batch : strategy_.distribute(as_dataset(batches))) {
      const int64_t rows = batches[step++].num_rows();
      strategy_.run(
          [&](const data::Example& part) {
            train_step(*net_, *optimizer_, part, rows, Form::kAverageLoss);
          },
          batch);
      if (between) between(net_.variables(), *optimizer_);
    }
  }
  /// SHA-256 of all replicas' weights, and the slots.
  std::string digest() const { return tensor::fingerprint(state_of(strategy_, net_, *optimizer_)); }
  Checkpoint::Objects objects() { return {{"net", net_}, {"optimizer", *optimizer_}}; }

 private:
  Strategy& strategy_;
  Kind kind_;
  Replicated<Net> net_;
  std::unique_ptr<optimizers::Optimizer> optimizer_;
};

class GpuShardsTest : public test::GpuTest {
 protected:
  void TearDown() override {
    EXPECT_TRUE(test::emulated_gpu::order_errors().empty());
    test::emulated_gpu::forget_order_errors();
    GpuTest::TearDown();
  }

  static MirroredOptions options(bool sharded, int64_t bytes_per_pack = 0) {
    return {.devices = {"gpu:0", "gpu:1"},
            .seed = 5,
            .communication_options = {.bytes_per_pack = bytes_per_pack},
            .shard_optimizer_state = sharded};
  }
  static std::string train(const MirroredOptions& options, const MakeOptimizer& make, Kind kind,
                           const Between& between = {}) {
    MirroredStrategy strategy(options);
    Training training(strategy, make, kind);
    training.run(8, between);
    return training.digest();
  }
  /// Sharded as unsharded, in one bucket and in many.
  static void expect_same_bits(const OptimizerCase& each, Kind kind, const Between& between = {}) {
    SCOPED_TRACE(str_cat(each.name, ", ", name_of(kind)));
    const std::string expected = train(options(false), each.make, kind, between);
    EXPECT_EQ(train(options(true), each.make, kind, between), expected);
    EXPECT_EQ(train(options(true, 100), each.make, kind, between), expected);
  }
  static OptimizerCase adam(double clipnorm = 0) {
    return optimizer_case<optimizers::Adam>(
        "adam", optimizers::AdamOptions{.learning_rate = 0.01, .clipnorm = clipnorm});
  }
};

TEST_F(GpuShardsTest, DoNotChangeABit) {
  for (const Kind kind : kAllKinds) expect_same_bits(adam(), kind);
  for (const OptimizerCase& each : optimizer_cases()) expect_same_bits(each, Kind::kMlp);
  for (const OptimizerCase& each : more_optimizer_cases()) expect_same_bits(each, Kind::kMlp);
}

TEST_F(GpuShardsTest, OfCompressedGradients) {
  MirroredOptions compressed = options(false);
  compressed.communication_options.gradient_compression = "FLOAT16";
  for (const Kind kind : {Kind::kCnn, Kind::kSparseEmbedding}) {
    const std::string expected = train(compressed, adam().make, kind);
    EXPECT_NE(expected, train(options(false), adam().make, kind));
    MirroredOptions sharded = compressed;
    sharded.shard_optimizer_state = true;
    sharded.communication_options.bytes_per_pack = 100;
    EXPECT_EQ(train(sharded, adam().make, kind), expected);
  }
}

TEST_F(GpuShardsTest, OfThreeReplicasOnACard) {
  MirroredOptions logical = options(false);
  logical.devices = test::logical_gpus(3);
  const std::string expected = train(logical, adam().make, Kind::kCnn);
  logical.shard_optimizer_state = true;
  EXPECT_EQ(train(logical, adam().make, Kind::kCnn), expected);
}

TEST_F(GpuShardsTest, KeepAccumulatorsAveragesAndMasks) {
  for (const double clipnorm : {0.0, 0.1}) {
    expect_same_bits(
        optimizer_case<optimizers::Adam>("accumulators and averages",
                                         optimizers::AdamOptions{.learning_rate = 0.01,
                                                                 .clipnorm = clipnorm,
                                                                 .use_ema = true,
                                                                 .ema_overwrite_frequency = 2,
                                                                 .gradient_accumulation_steps = 3}),
        Kind::kSparseEmbedding);
  }
  expect_same_bits({"masks",
                    [](std::vector<Variable> variables) {
                      auto optimizer = std::make_unique<optimizers::AdamW>(
                          optimizers::AdamWOptions{.learning_rate = 0.01, .weight_decay = 0.1});
                      optimizer->exclude_from_weight_decay({"bias"});
                      optimizer->build(std::move(variables));
                      return optimizer;
                    }},
                   Kind::kMlp);
  expect_same_bits(
      optimizer_case<optimizers::Adam>(
          "finalized averages", optimizers::AdamOptions{.learning_rate = 0.01, .use_ema = true}),
      Kind::kMlp, [](const std::vector<Variable>&, optimizers::Optimizer& optimizer) {
        optimizer.finalize_variable_values();
      });
}

TEST_F(GpuShardsTest, WhatTheProgramDoesBetweenStepsReachesAllParts) {
  const Between change = [](const std::vector<Variable>& variables,
                            optimizers::Optimizer& optimizer) {
    for (Variable variable : variables) variable.assign(variable.value().detach() * 1.01);
    const auto slots = optimizer.slots();
    for (size_t i = 0; i < slots.size(); ++i) optimizer.set_slot(i, slots[i].second * 0.9);
  };
  EXPECT_NE(train(options(false), adam().make, Kind::kMlp, change),
            train(options(false), adam().make, Kind::kMlp));
  expect_same_bits(adam(), Kind::kMlp, change);
  expect_same_bits(adam(), Kind::kSparseEmbedding, change);
  expect_same_bits(adam(0.1), Kind::kMlp, change);
}

TEST_F(GpuShardsTest, ACheckpointGoesOnWithoutThemAndOnCpus) {
  std::vector<std::string> undisturbed;
  {
    MirroredStrategy strategy(options(false));
    Training training(strategy, adam().make, Kind::kSparseEmbedding);
    for (int i = 0; i < 4; ++i) {
      training.run(2);
      undisturbed.push_back(training.digest());
    }
  }
  const test::TempFolder folder;
  std::string path;
  size_t life = 0;
  for (const MirroredOptions& each :
       {options(true, 100), options(false), options(true), options(true, 1000)}) {
    MirroredStrategy strategy(each);
    Training training(strategy, adam().make, Kind::kSparseEmbedding);
    Checkpoint checkpoint(training.objects());
    if (life > 0) {
      checkpoint.restore(path).assert_consumed();
      EXPECT_EQ(training.digest(), undisturbed[life - 1]);
    }
    training.run(2);
    EXPECT_EQ(training.digest(), undisturbed[life]);
    path = checkpoint.save(folder.path() + "/run");
    ++life;
  }
  // The bits of slots and weights pass through a CPU, and back.
  {
    set_logical_devices("cpu", 2);
    MirroredStrategy cpus({.devices = {"cpu:0", "cpu:1"}, .seed = 5});
    Training training(cpus, adam().make, Kind::kSparseEmbedding);
    Checkpoint checkpoint(training.objects());
    checkpoint.restore(path).assert_consumed();
    EXPECT_EQ(training.digest(), undisturbed.back());
    path = checkpoint.save(folder.path() + "/cpus");
  }
  MirroredStrategy strategy(options(true));
  Training training(strategy, adam().make, Kind::kSparseEmbedding);
  training.run(1);  // into parts that are on the cards
  Checkpoint(training.objects()).restore(path).assert_consumed();
  EXPECT_EQ(training.digest(), undisturbed.back());
}

/// Bytes on all cards behind some steps of Adam, without gradients.
int64_t bytes_of_training(const MirroredOptions& options, int64_t elements) {
  const auto before = static_cast<int64_t>(test::emulated_gpu::Memory::instance().bytes_in_use());
  MirroredStrategy strategy(options);
  const auto weights = strategy.scope([&] {
    std::vector<Variable> made;
    for (int i = 0; i < 4; ++i) made.emplace_back(at::ones({elements / 4}));
    return made;
  });
  optimizers::Adam optimizer(weights, {.learning_rate = 0.1, .amsgrad = true});
  for (int step = 0; step < 2; ++step) {
    strategy.run([&] {
      at::Tensor loss = weights[0].value().sum();
      for (int i = 1; i < 4; ++i) loss = loss + weights[i].value().sum();
      optimizer.minimize(loss);
    });
  }
  return static_cast<int64_t>(test::emulated_gpu::Memory::instance().bytes_in_use()) - before;
}

TEST_F(GpuShardsTest, TakeTheirPartOfTheSlotsMemory) {
  constexpr int64_t kElements = 1 << 18;
  constexpr auto kSlots = static_cast<int64_t>(sizeof(float)) * kElements * 3;  // of one card
  const int64_t whole = bytes_of_training(options(false), kElements);
  const int64_t sharded = bytes_of_training(options(true, kElements), kElements);
  std::printf("bytes on two cards: %lld, sharded %lld\n", static_cast<long long>(whole),
              static_cast<long long>(sharded));
  // Two cards with half of the slots each; some lines of padding.
  EXPECT_NEAR(static_cast<double>(whole - sharded), static_cast<double>(kSlots), 4096);
}

TEST_F(GpuShardsTest, AreRefusedWhereGradientsGoToAllReplicas) {
  MirroredOptions both = options(true);
  both.cross_device_ops = std::make_shared<ReductionToOneDevice>();
  EXPECT_THROW(MirroredStrategy{both}, Error);
}

}  // namespace
}  // namespace strata::parity
