// strata::function in replica functions: modules of libtorch, strata's optimizers, collectives and
// metrics, with one replica and two, against the same program without it.
#include <torch/torch.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "strata/graph/function.h"
#include "strata/interop/torch_optimizer.h"
#include "strata/optim/loss_scale_optimizer.h"
#include "strata/optim/losses.h"
#include "strata/optim/metrics.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/replicated.h"
#include "strata/runtime/sync_batch_norm.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/replicate.h"
#include "strata/tensor/fingerprint.h"
#include "support/replicas.h"
#include "support/this_replica.h"

namespace strata {
namespace {

using at::Tensor;
using torch::nn::Sequential;

constexpr int kSteps = 20;
constexpr int64_t kRows = 8;

Sequential mlp() {
  return Sequential(torch::nn::Linear(12, 16), torch::nn::ReLU(), torch::nn::Dropout(0.3),
                    torch::nn::Linear(16, 5));
}

Sequential cnn() {
  return Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1)),
                    SyncBatchNorm(8), torch::nn::ReLU(), torch::nn::MaxPool2d(2),
                    torch::nn::Conv2d(8, 8, 3), torch::nn::BatchNorm2d(8), torch::nn::ReLU(),
                    torch::nn::Flatten(), torch::nn::Linear(72, 5));
}

struct LstmImpl : torch::nn::Module {
  LstmImpl() {
    register_module("lstm", lstm);
    register_module("head", head);
  }
  Tensor forward(const Tensor& x) { return head(std::get<0>(lstm(x)).select(1, -1)); }
  torch::nn::LSTM lstm{torch::nn::LSTMOptions(12, 16).num_layers(2).dropout(0.2).batch_first(true)};
  torch::nn::Linear head{16, 5};
};
TORCH_MODULE(Lstm);

struct TransformerImpl : torch::nn::Module {
  TransformerImpl() {
    register_module("embedding", embedding);
    register_module("layer", layer);
    register_module("head", head);
  }
  Tensor forward(const Tensor& words) { return head(layer(embedding(words)).mean(0)); }
  torch::nn::Embedding embedding{20, 16};
  torch::nn::TransformerEncoderLayer layer{
      torch::nn::TransformerEncoderLayerOptions(16, 2).dim_feedforward(32).activation(
          torch::kGELU)};
  torch::nn::Linear head{16, 5};
};
TORCH_MODULE(Transformer);

using MakeOptimizer = std::function<optimizers::AnyOptimizer()>;

Tensor images() { return torch::randn({kRows, 3, 10, 10}); }
Tensor vectors() { return torch::randn({kRows, 12}); }
Tensor sequences() { return torch::randn({kRows, 6, 12}); }
Tensor words() { return torch::randint(0, 20, {7, kRows}); }

/// Trains on `replicas` replicas; the hash of weights, buffers, slots, losses and the metric.
template <typename Make>
std::string train(const Make& make, Tensor (*input)(), const MakeOptimizer& make_optimizer,
                  int replicas, bool traced) {
  MirroredStrategy strategy({.devices = cpus(replicas), .seed = 5});
  torch::manual_seed(5);
  const auto module = strategy.replicate(make);
  optimizers::AnyOptimizer optimizer = make_optimizer();
  optimizer->build(module.variables());
  const auto accuracy = strategy.scope([] { return std::make_shared<metrics::Mean>("accuracy"); });
  strategy.scope([&] { accuracy->build(); });
  const auto step = [&](const Tensor& x, const Tensor& y) {
    const Tensor logits = module->forward(x);
    const Tensor losses = losses::sparse_categorical_crossentropy(y, logits, {.from_logits = true});
    const Tensor loss = compute_average_loss(losses, kRows * replicas);
    optimizer->minimize(loss);
    accuracy->update(logits.detach().argmax(1).eq(y).to(torch::kFloat));
    const Tensor total = replica().all_reduce(ReduceOp::kSum, loss.detach());
    return std::vector<Tensor>{total, replica().all_gather(logits.detach(), 0)};
  };
  const auto function = strata::function(step, {.name = "step", .run_eagerly = !traced});
  std::vector<Tensor> results;
  for (int i = 0; i < kSteps; ++i) {
    std::vector<Tensor> x, y;
    for (int r = 0; r < replicas; ++r) {
      x.push_back(input());
      y.push_back(torch::randint(0, 5, {kRows}));
    }
    const auto values = strategy.run(function, PerReplica(x), PerReplica(y));
    for (const auto& local : values.values()) {
      for (const Tensor& value : local) results.push_back(value.detach().clone());
    }
  }
  EXPECT_EQ(function.tracing_count(), traced ? replicas : 0);
  EXPECT_EQ(optimizer->iterations(), kSteps);
  for (const Variable& variable : module.variables()) {
    for (int r = 0; r < replicas; ++r) results.push_back(variable.on_replica(r).detach());
  }
  for (const Tensor& buffer : module->buffers()) results.push_back(buffer);
  for (const auto& [name, slot] : optimizer->slots()) results.push_back(slot);
  results.push_back(torch::tensor(accuracy->result(), torch::kDouble));
  strategy.verify_replicas(module.variables());
  return tensor::fingerprint(results);
}

template <typename Make>
void expect_same_bits(const Make& make, Tensor (*input)(), const MakeOptimizer& make_optimizer) {
  for (const int replicas : {1, 2}) {
    EXPECT_EQ(train(make, input, make_optimizer, replicas, true),
              train(make, input, make_optimizer, replicas, false))
        << replicas << " replicas";
  }
}

optimizers::AnyOptimizer momentum() {
  return optimizers::SGD({.learning_rate = 0.05, .momentum = 0.9, .nesterov = true});
}

TEST(FunctionOnReplicasTest, Mlp) { expect_same_bits(mlp, vectors, momentum); }

TEST(FunctionOnReplicasTest, CnnWithSynchronizedStatistics) {
  expect_same_bits(cnn, images, momentum);
}

TEST(FunctionOnReplicasTest, Lstm) {
  expect_same_bits([] { return Lstm(); }, sequences, [] { return optimizers::RMSprop(); });
}

TEST(FunctionOnReplicasTest, Transformer) {
  expect_same_bits(
      [] { return Transformer(); }, words,
      [] {
        return optimizers::AdamW({.learning_rate = schedules::CosineDecay{
                                      .initial_learning_rate = 0.01, .decay_steps = 15}});
      });
}

TEST(FunctionOnReplicasTest, OptimizersWithStateOfTheirOwn) {
  const std::vector<MakeOptimizer> all = {
      [] { return optimizers::Adam({.learning_rate = 0.01, .global_clipnorm = 0.5}); },
      [] { return optimizers::Nadam({.learning_rate = 0.01}); },
      [] {
        return optimizers::SGD({.learning_rate = 0.05,
                                .use_ema = true,
                                .ema_momentum = 0.9,
                                .gradient_accumulation_steps = 3});
      },
      [] { return optimizers::LossScaleOptimizer(optimizers::SGD({.learning_rate = 0.05})); },
  };
  for (const MakeOptimizer& each : all) expect_same_bits(mlp, vectors, each);
}

/// Two threads that mirror what a function of one and the same signature may do at a time.
TEST(FunctionOnReplicasTest, ReplicasHaveGraphsOfTheirOwn) {
  MirroredStrategy strategy({.devices = cpus(2), .seed = 1});
  const Variable sum = strategy.scope([] {
    return Variable(torch::zeros({2}), {.name = "sum",
                                        .trainable = false,
                                        .synchronization = VariableSynchronization::kOnRead,
                                        .aggregation = VariableAggregation::kSum});
  });
  const Variable shared = strategy.scope([] {
    return Variable(
        torch::zeros({2}),
        {.name = "shared", .trainable = false, .aggregation = VariableAggregation::kMean});
  });
  const auto step = function([&](const Tensor& x) {
    Variable own = sum;
    own.assign_add(x);
    Variable all = shared;
    all.assign_add(x * 2);
    return x + all.value();
  });
  for (int i = 0; i < 6; ++i) {
    strategy.run(step, PerReplica(std::vector<Tensor>{torch::ones({2}), torch::full({2}, 3.0F)}));
  }
  EXPECT_EQ(step.tracing_count(), 2);
  EXPECT_TRUE(sum.value().equal(torch::full({2}, 24.0F))) << sum.value();
  EXPECT_TRUE(shared.value().equal(torch::full({2}, 24.0F))) << shared.value();
}

TEST(FunctionOnReplicasTest, DifferentiatesSumsOverReplicas) {
  MirroredStrategy strategy({.devices = cpus(2), .seed = 1});
  const auto gradient = [](const Tensor& x) {
    const Tensor leaf = x.detach().requires_grad_();
    const Tensor all = replica().all_gather(leaf * leaf, 0);
    const Tensor sum = replica().all_reduce(ReduceOp::kMean, all.square().sum());
    return torch::autograd::grad({sum}, {leaf})[0];
  };
  const auto traced = function(gradient);
  for (int i = 0; i < 5; ++i) {
    const PerReplica<Tensor> x(std::vector<Tensor>{torch::randn({3}), torch::randn({3})});
    const auto expected = strategy.run(gradient, x);
    const auto replayed = strategy.run(traced, x);
    for (int r = 0; r < 2; ++r) EXPECT_TRUE(replayed.get(r).equal(expected.get(r)));
  }
}

TEST(FunctionOnReplicasTest, RefusesUnequalBatchesWhereNumbersOfRowsCount) {
  MirroredStrategy strategy({.devices = cpus(2), .seed = 1});
  const auto gather = function([](const Tensor& x) { return replica().all_gather(x, 0); });
  const auto parts = [](int64_t first, int64_t second) {
    return PerReplica(std::vector<Tensor>{torch::ones({first, 2}), torch::ones({second, 2})});
  };
  for (int i = 0; i < 4; ++i) strategy.run(gather, parts(3, 3));
  // Replica 1 runs as it is written, and replica 0 replays.
  EXPECT_TRUE(
      throws(ErrorCode::kFailedPrecondition,
             {"strata::all_gather gave Float [5, 2]", "traced with Float [6, 2]", "drop_remainder"},
             [&] { strategy.run(gather, parts(3, 2)); }));
}

TEST(FunctionOnReplicasTest, OneGraphForAllSizes) {
  struct Run {
    std::string hash;
    int64_t graphs;
    int calls, calls_of_two_sizes;  // of the function's code
  };
  const auto run = [](bool traced, int replicas) {
    MirroredStrategy strategy({.devices = cpus(replicas), .seed = 5});
    torch::manual_seed(5);
    const auto module = strategy.replicate(mlp);
    optimizers::Adam adam(module.variables(), {.learning_rate = 0.01, .global_clipnorm = 0.5});
    const auto mean = strategy.scope([] { return std::make_shared<metrics::Mean>("mean"); });
    strategy.scope([&] { mean->build(); });
    std::atomic<int> calls = 0;
    const auto step = function(
        [&](const Tensor& x, const Tensor& y) {
          ++calls;
          const Tensor losses =
              losses::sparse_categorical_crossentropy(y, module->forward(x), {.from_logits = true});
          adam.minimize(compute_average_loss(losses));
          mean->update(losses.detach());
          return replica().all_reduce(ReduceOp::kMean, losses.detach().mean());
        },
        {.run_eagerly = !traced, .reduce_retracing = true});
    std::vector<Tensor> results;
    Run made{};
    // The largest first, for both replicas; they have other sizes at a time.
    const std::vector<int64_t> sizes = {16, 16, 5, 16, 7, 9, 2, 12, 3, 6, 16, 11, 8, 4, 13, 5, 10};
    for (size_t i = 0; i < sizes.size(); ++i) {
      std::vector<Tensor> x, y;
      for (int r = 0; r < replicas; ++r) {
        const int64_t rows = i < 3 ? sizes[i] : sizes[(i + 3 * static_cast<size_t>(r)) % 17];
        x.push_back(torch::randn({rows, 12}));
        y.push_back(torch::randint(0, 5, {rows}));
      }
      results.push_back(strategy.run(step, PerReplica(x), PerReplica(y)).get(0).clone());
      if (i == 2) made.calls_of_two_sizes = calls;
    }
    for (const Variable& each : module.variables()) results.push_back(each.value().detach());
    for (const auto& [name, slot] : adam.slots()) results.push_back(slot);
    results.push_back(torch::tensor(mean->result(), torch::kDouble));
    made.hash = tensor::fingerprint(results);
    made.graphs = step.tracing_count();
    made.calls = calls;
    return made;
  };
  for (const int replicas : {1, 2}) {
    const Run traced = run(true, replicas);
    EXPECT_EQ(traced.hash, run(false, replicas).hash) << replicas << " replicas";
    EXPECT_EQ(traced.graphs, 2 * replicas);
    EXPECT_EQ(traced.calls, traced.calls_of_two_sizes);
  }
}

TEST(FunctionOnReplicasTest, RefusesCallsOfAllReplicas) {
  MirroredStrategy strategy({.devices = cpus(2), .seed = 1});
  const auto step = function([](const Tensor& x) {
    replica().merge_call([](Strategy&, const PerReplica<Tensor>&) {}, x);
    return x + 1;
  });
  const Tensor x = torch::ones({2});
  strategy.run(step, x);
  EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                     {"merge_call waits for the other replicas", "outside the function"},
                     [&] { strategy.run(step, x); }));
}

TEST(FunctionOnReplicasTest, OptimizersOfLibtorch) {
  const auto run = [](bool traced, int replicas) {
    MirroredStrategy strategy({.devices = cpus(replicas), .seed = 5});
    torch::manual_seed(5);
    const auto module = strategy.replicate(mlp);
    interop::TorchOptimizer<torch::optim::Adam> adam(module.variables(),
                                                     torch::optim::AdamOptions(0.01));
    const auto step =
        function([&](const Tensor& x) { adam.minimize(module->forward(x).square().mean()); },
                 {.run_eagerly = !traced});
    for (int i = 0; i < kSteps; ++i) strategy.run(step, vectors());
    std::vector<Tensor> weights;
    for (const Variable& each : module.variables()) weights.push_back(each.value().detach());
    return tensor::fingerprint(weights);
  };
  for (const int replicas : {1, 2}) EXPECT_EQ(run(true, replicas), run(false, replicas));
}

}  // namespace
}  // namespace strata
