// A training run that can be killed at any moment, and started again until it has ended: an MLP
// with an embedding and dropout, batch statistics, Adam, shuffled and augmented input read ahead,
// some replicas on logical CPUs, a checkpoint every few steps. It prints the SHA-256 of weights,
// slots and history.
//
//   trainer FOLDER [--replicas N] [--permits N] [--strategy mirrored|unshared|one_device]
//   [--asynchronous 0|1]
//           [--calls N] [--prefetch N] [--steps N] [--every N] [--kill_at N]   (the N-th operation
//           on the disk kills, SIGKILL)
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <ATen/ops/from_blob.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "strata/checkpoint/checkpoint_manager.h"
#include "strata/checkpoint/preemption.h"
#include "strata/data/dataset.h"
#include "strata/optim/losses.h"
#include "strata/optim/metrics.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/devices.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/one_device_strategy.h"
#include "strata/strategies/replicate.h"
#include "strata/tensor/fingerprint.h"
#include "support/faulty_file_system.h"

namespace {

using strata::data::Dataset;
using strata::data::ElementKey;
using strata::data::Example;
using strata::data::RandomNumbers;

constexpr int64_t kRows = 240;
constexpr int64_t kBatch = 16;  // 15 steps an epoch

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("words", words);
    register_module("hidden", hidden);
    register_module("norm", norm);
    register_module("dropout", dropout);
    register_module("logits", logits);
  }
  at::Tensor forward(const at::Tensor& features, const at::Tensor& word) {
    const at::Tensor x = at::cat({features, words(word)}, 1);
    return logits(dropout(at::relu(norm(hidden(x)))));
  }
  torch::nn::Embedding words{torch::nn::EmbeddingOptions(20, 8)};
  torch::nn::Linear hidden{24, 32};
  torch::nn::BatchNorm1d norm{32};
  torch::nn::Dropout dropout{0.3};
  torch::nn::Linear logits{32, 5};
};
TORCH_MODULE(Net);

Dataset input(int64_t calls) {
  // Not from the global generator: it is part of the state.
  const at::Tensor index = at::arange(kRows * 16, at::kFloat);
  const at::Tensor features = at::sin(index * 12.9898F).view({kRows, 16});
  const at::Tensor word = at::arange(kRows, at::kLong).remainder(20);
  const at::Tensor label = at::arange(kRows, at::kLong).mul(7).remainder(5);
  return Dataset::from_tensor_slices({features, word, label})
      .shuffle(100, {.seed = 11})
      .map(
          [](const Example& row, const ElementKey& key) {
            RandomNumbers random(key);
            const double scale = random.uniform(0.5, 1.5);
            const at::Tensor features = random.bernoulli(0.5) ? row[0].flip(0) : row[0];
            return Example{features * scale, row[1], row[2]};
          },
          {.num_parallel_calls = calls, .seed = 5})
      .batch(kBatch)
      .prefetch(3);
}

struct Settings {
  std::string folder;
  int replicas = 4;
  int permits = 0;
  std::string strategy = "mirrored";
  bool asynchronous = false;
  int64_t steps = 40;
  int64_t every = 3;
  int64_t kill_at = -1;
  int64_t calls = 2;     // threads of the augmentation
  int64_t prefetch = 1;  // steps made ahead; part of the pipeline: none is another pipeline
};

Settings parse(int argc, char** argv) {
  std::map<std::string, std::string> given;
  for (int i = 2; i + 1 < argc; i += 2) given[argv[i]] = argv[i + 1];
  const auto number = [&](const char* name, int64_t otherwise) {
    return given.contains(name) ? std::stoll(given[name]) : otherwise;
  };
  Settings s;
  s.folder = argv[1];
  s.replicas = static_cast<int>(number("--replicas", s.replicas));
  s.permits = static_cast<int>(number("--permits", s.permits));
  if (given.contains("--strategy")) s.strategy = given["--strategy"];
  s.asynchronous = number("--asynchronous", 0) != 0;
  s.steps = number("--steps", s.steps);
  s.every = number("--every", s.every);
  s.calls = number("--calls", s.calls);
  s.prefetch = number("--prefetch", s.prefetch);
  s.kill_at = number("--kill_at", s.kill_at);
  return s;
}

std::unique_ptr<strata::Strategy> make_strategy(const Settings& settings) {
  strata::set_logical_devices("cpu", settings.replicas);
  if (settings.strategy == "one_device") {
    return std::make_unique<strata::OneDeviceStrategy>(strata::OneDeviceOptions{
        .device = "cpu:0", .seed = 3, .replicas = {.threads_per_replica = 1}});
  }
  strata::MirroredOptions options{.seed = 3};
  for (int i = 0; i < settings.replicas; ++i) options.devices.push_back(strata::str_cat("cpu:", i));
  options.replicas.permits = settings.permits;
  options.replicas.threads_per_replica = 1;
  options.replicas.share_storage = settings.strategy != "unshared";
  return std::make_unique<strata::MirroredStrategy>(options);
}

void train(const Settings& settings) {
  const auto owner = make_strategy(settings);
  strata::Strategy& strategy = *owner;
  torch::manual_seed(1);
  const auto net = strategy.replicate([] { return Net(); });
  strata::optimizers::Adam adam(net.variables(),
                                {.learning_rate = strata::schedules::CosineDecay{
                                     .initial_learning_rate = 0.01, .decay_steps = 100}});
  strata::metrics::Mean epoch_loss = strategy.scope([] { return strata::metrics::Mean("loss"); });
  const auto batches = strategy.distribute(input(settings.calls), {.prefetch = settings.prefetch});
  auto iterator = batches.iterator(0);
  int64_t step = 0;
  int64_t epoch = 0;
  std::vector<double> history;  // of every step, and of every epoch

  strata::Checkpoint checkpoint(
      {{"model", net},
       {"optimizer", adam},
       {"loss", epoch_loss},
       {"input", iterator},
       {"progress", strata::Checkpoint::Objects{{"step", step}, {"epoch", epoch}}},
       {"history", history}},
      {.asynchronous = settings.asynchronous});
  const std::string folder =
      settings.kill_at >= 0 ? strata::test::on_faulty_disk(settings.folder) : settings.folder;
  if (settings.kill_at >= 0) {
    strata::test::faulty_disk().start(strata::test::Fault::kKill, settings.kill_at);
  }
  strata::CheckpointManager manager(checkpoint, folder, {.max_to_keep = 2});
  if (manager.restore_or_initialize()) manager.status().assert_consumed();
  std::printf("starts at step %lld\n", static_cast<long long>(step));
  std::fflush(stdout);

  strata::PreemptionCheckpointHandler preemption(manager);
  while (step < settings.steps) {
    const auto batch = iterator.next();
    if (!batch) {
      history.push_back(epoch_loss.result());
      epoch_loss.reset();
      iterator = batches.iterator(++epoch);
      continue;
    }
    const auto loss = strategy.run(
        [&](const Example& part) {
          const at::Tensor losses = strata::losses::sparse_categorical_crossentropy(
              part[2], net->forward(part[0], part[1]), {.from_logits = true});
          const at::Tensor local = strata::compute_average_loss(losses, kBatch);
          adam.minimize(local);
          epoch_loss.update(losses);
          return local.detach();
        },
        *batch);
    // Code outside of replicas draws, too.
    history.push_back(strategy.reduce(strata::ReduceOp::kSum, loss).item<double>() +
                      at::rand({}).item<double>());
    ++step;
    preemption.check(step);
    if (step % settings.every == 0) (void)manager.save();
  }
  checkpoint.wait();

  std::vector<at::Tensor> all;
  for (const auto& variable : net.parameters()) all.push_back(variable.on_replica(0).detach());
  for (const auto& variable : net.buffers()) {
    for (int r = 0; r < settings.replicas; ++r) all.push_back(variable.on_replica(r));
  }
  for (const auto& [name, slot] : adam.slots()) all.push_back(slot);
  all.push_back(at::from_blob(history.data(), {static_cast<int64_t>(history.size())}, at::kDouble));
  std::printf("sha256 %s\n", strata::tensor::fingerprint(all).c_str());
}

}  // namespace

int main(int argc, char** argv) try {
  train(parse(argc, argv));
} catch (const strata::Preempted& preempted) {
  return preempted.exit_code();
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
