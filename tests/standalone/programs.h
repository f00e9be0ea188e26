#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/replica_group.h"
#include "strata/graph/function.h"
#include "strata/optim/losses.h"
#include "strata/optim/metrics.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/replicated.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/replicate.h"
#include "strata/tensor/fingerprint.h"
#include "support/this_replica.h"

/// What standalone clients train in the tests, and the same in one process.
namespace strata::test {

constexpr int64_t kRows = 8;
constexpr uint64_t kSeed = 5;

struct CnnImpl : torch::nn::Module {
  CnnImpl() {
    register_module("first", first);
    register_module("norm", norm);
    register_module("second", second);
    register_module("dropout", dropout);
    register_module("head", head);
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = torch::relu(norm(first(x)));
    y = torch::relu(second(torch::max_pool2d(y, 2)));
    return head(dropout(y.flatten(1)));
  }
  torch::nn::Conv2d first{torch::nn::Conv2dOptions(1, 8, 3).padding(1)};
  torch::nn::BatchNorm2d norm{8};
  torch::nn::Conv2d second{8, 16, 3};
  torch::nn::Dropout dropout{0.3};
  torch::nn::Linear head{64, 5};
};
TORCH_MODULE(Cnn);

struct WordsImpl : torch::nn::Module {
  WordsImpl() {
    register_module("embedding", embedding);
    register_module("norm", norm);
    register_module("hidden", hidden);
    register_module("head", head);
  }
  at::Tensor forward(const at::Tensor& words) {
    return head(torch::gelu(hidden(norm(embedding(words)).mean(1))));
  }
  torch::nn::Embedding embedding{50, 16};
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({16})};
  torch::nn::Linear hidden{16, 32};
  torch::nn::Linear head{32, 5};
};
TORCH_MODULE(Words);

/// The same in every process.
inline at::Tensor input_of(bool words, int step, int replica) {
  const auto seed = static_cast<uint64_t>(1000 * step + replica);
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return words ? torch::randint(0, 50, {kRows, 7}, generator, torch::kLong)
               : torch::randn({kRows, 1, 8, 8}, generator);
}
inline at::Tensor labels_of(int step, int replica) {
  const auto seed = static_cast<uint64_t>(1000 * step + replica + 500);
  return torch::randint(0, 5, {kRows}, at::make_generator<at::CPUGeneratorImpl>(seed),
                        torch::kLong);
}

struct Trained {
  std::vector<at::Tensor> losses;   // the last, by replica
  std::vector<at::Tensor> weights;  // of all replicas
  std::vector<at::Tensor> state;    // buffers, slots, the mean loss
  int64_t iterations = 0;

  std::string sha256() const {
    std::vector<at::Tensor> all = losses;
    all.insert(all.end(), weights.begin(), weights.end());
    all.insert(all.end(), state.begin(), state.end());
    all.push_back(torch::tensor(iterations));
    return tensor::fingerprint(all);
  }
};

/// Trains from the strategy's position to `steps`. `after` is called behind each step.
/// @param first  The number of the strategy's first replica in the job.
template <typename Module, typename ClientStrategy>
Trained train(ClientStrategy& strategy, const std::function<Module()>& make, bool words, int steps,
              const std::function<void(int)>& after = {}, int first = 0) {
  static std::mutex drawing;  // workers may be threads, and libtorch has one generator for all
  const auto module = [&] {
    const std::lock_guard lock(drawing);
    torch::manual_seed(static_cast<int64_t>(kSeed));
    return strategy.replicate(make);
  }();
  optimizers::Adam optimizer(
      module.variables(),
      {.learning_rate = schedules::ExponentialDecay{
           .initial_learning_rate = 0.01, .decay_steps = 10, .decay_rate = 0.9}});
  const auto mean = strategy.scope([] { return std::make_shared<metrics::Mean>("loss"); });
  strategy.scope([&] { mean->build(); });
  const int replicas = strategy.group().num_local_replicas();
  const auto step = strata::function(
      [&](const at::Tensor& x, const at::Tensor& y) {
        const at::Tensor losses =
            losses::sparse_categorical_crossentropy(y, module->forward(x), {.from_logits = true});
        const at::Tensor loss =
            compute_average_loss(losses, kRows * strategy.num_replicas_in_sync());
        optimizer.minimize(loss);
        mean->update(losses.detach());
        return replica().all_reduce(ReduceOp::kSum, loss.detach());
      },
      {.name = "train_step"});
  Trained trained;
  for (auto i = static_cast<int>(strategy.runs()); i < steps; ++i) {
    std::vector<at::Tensor> x, y;
    for (int r = 0; r < replicas; ++r) {
      x.push_back(input_of(words, i, first + r));
      y.push_back(labels_of(i, first + r));
    }
    const auto losses = strategy.run(step, PerReplica(x), PerReplica(y));
    if (i + 1 == steps) trained.losses = losses.values();
    if (after) after(i + 1);
  }
  strategy.fetch();
  for (const Variable& variable : module.variables()) {
    for (int r = 0; r < replicas; ++r) trained.weights.push_back(variable.on_replica(r).detach());
  }
  for (const at::Tensor& buffer : module->buffers()) trained.state.push_back(buffer);
  for (const auto& [name, slot] : optimizer.slots()) trained.state.push_back(slot);
  trained.state.push_back(torch::tensor(mean->result(), torch::kDouble));
  trained.iterations = optimizer.iterations();
  for (auto* tensors : {&trained.weights, &trained.state}) {
    for (at::Tensor& each : *tensors) each = each.clone();
  }
  return trained;
}

template <typename ClientStrategy>
Trained train_values(ClientStrategy& strategy, const std::string& model, int steps,
                     const std::function<void(int)>& after = {}, int first = 0) {
  if (model == "words") {
    return train<Words>(
        strategy, [] { return Words(); }, true, steps, after, first);
  }
  return train<Cnn>(
      strategy, [] { return Cnn(); }, false, steps, after, first);
}

/// @return the hash of weights, buffers, slots and the last losses.
template <typename ClientStrategy>
std::string train_model(ClientStrategy& strategy, const std::string& model, int steps,
                        const std::function<void(int)>& after = {}) {
  return train_values(strategy, model, steps, after).sha256();
}

inline MirroredOptions client_of(const std::vector<std::string>& servers) {
  MirroredOptions options{.seed = kSeed, .client = "standalone"};
  options.standalone.servers = servers;
  return options;
}

/// In this process, on two replicas.
inline std::string train_here(const std::string& model, int steps) {
  MirroredStrategy strategy({.devices = {"cpu:0", "cpu:1"}, .seed = kSeed});
  return train_model(strategy, model, steps);
}

}  // namespace strata::test
