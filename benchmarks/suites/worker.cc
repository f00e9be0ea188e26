// The strata side of suite `step`: the program that a user of strata writes, behind the line
// protocol of benchmarks/peers/README.md. The models are those of
// benchmarks/peers/libtorch_loop.cc.
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/version.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "strata/data/example.h"
#include "strata/optim/average_loss.h"
#include "strata/optim/losses.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/devices.h"
#include "strata/strategies/central_storage_strategy.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"
#include "strata/strategies/parameter_server_strategy.h"
#include "strata/strategies/replicate.h"
#include "suites/options.h"
#include "suites/serve.h"
#include "suites/worker.h"
#include "tools/command_line.h"

namespace strata::bench {
namespace {

constexpr int64_t kBatch = 64;

struct Mlp : torch::nn::Module {
  Mlp(int64_t in, int64_t hidden, int64_t out)
      : fc1(register_module("fc1", torch::nn::Linear(in, hidden))),
        fc2(register_module("fc2", torch::nn::Linear(hidden, hidden))),
        fc3(register_module("fc3", torch::nn::Linear(hidden, out))) {}
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(fc1(x));
    x = torch::relu(fc2(x));
    return fc3(x);
  }
  torch::nn::Linear fc1, fc2, fc3;
};

struct Cnn : torch::nn::Module {
  Cnn()
      : conv1(register_module("conv1", torch::nn::Conv2d(1, 32, 3))),
        conv2(register_module("conv2", torch::nn::Conv2d(32, 64, 3))),
        fc1(register_module("fc1", torch::nn::Linear(64 * 12 * 12, 128))),
        fc2(register_module("fc2", torch::nn::Linear(128, 10))) {}
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(conv1(x));
    x = torch::relu(conv2(x));
    x = torch::max_pool2d(x, 2).flatten(1);
    return fc2(torch::relu(fc1(x)));
  }
  torch::nn::Conv2d conv1, conv2;
  torch::nn::Linear fc1, fc2;
};

using Batches = std::vector<PerReplica<data::Example>>;

/// Global batches: step i, replica r gets batch i * replicas + r. Those of this process's replicas,
/// on their devices.
Batches read_batches(const std::string& path, const Strategy& strategy, bool images) {
  const data::Example pool = read_pool(path, 0);
  const at::Tensor& x = pool.x();
  const at::Tensor& y = pool.y();
  Batches batches;
  const ReplicaGroup& group = strategy.group();
  for (int64_t i = 0; i + group.num_replicas() <= x.size(0); i += group.num_replicas()) {
    std::vector<data::Example> parts;
    for (int local = 0; local < group.num_local_replicas(); ++local) {
      const int64_t r = i + group.replica_id(local);
      const at::Device device = group.device(local).physical;
      parts.push_back({(images ? x[r].view({-1, 1, 28, 28}) : x[r]).to(device), y[r].to(device)});
    }
    batches.emplace_back(std::move(parts));
  }
  return batches;
}

template <typename Factory, typename Optimizer>
void serve_training(Strategy& strategy, const Batches& batches, const Factory& make_net,
                    const Optimizer& make_optimizer) {
  auto net = strategy.replicate(make_net);
  auto optimizer = make_optimizer(net.variables());
  const int64_t global_batch = batches.at(0).get(0).num_rows() * strategy.num_replicas_in_sync();
  size_t at = 0;
  serve([&](long count) {
    PerReplica<at::Tensor> loss;
    for (long i = 0; i < count; ++i, at = (at + 1) % batches.size()) {
      loss = strategy.run(
          [&](const data::Example& batch) {
            const auto loss =
                compute_average_loss(losses::sparse_categorical_crossentropy(
                                         batch.y(), net->forward(batch.x()), {.from_logits = true}),
                                     global_batch);
            optimizer.minimize(loss);
            return loss.detach();
          },
          batches[at]);
    }
    return strategy.reduce(ReduceOp::kSum, loss).template item<double>();
  });
}

/// A custom loop under any strategy.
void serve_case(Strategy& strategy, const std::string& name, const std::string& data) {
  const auto adam = [](std::vector<Variable> variables) {
    return optimizers::Adam(std::move(variables), {.learning_rate = 1e-3});
  };
  const auto sgd = [](std::vector<Variable> variables) {
    return optimizers::SGD(std::move(variables), {.learning_rate = 0.01, .momentum = 0.9});
  };
  if (name == "run") {
    serve([&](long count) {
      for (long i = 0; i < count; ++i) strategy.run([] {});
      return 0.0;
    });
  } else if (name == "mlp-loop") {
    serve_training(
        strategy, read_batches(data, strategy, false), [] { return Mlp(784, 256, 10); }, adam);
  } else if (name == "wide-loop") {
    serve_training(
        strategy, read_batches(data, strategy, false), [] { return Mlp(1024, 4096, 1000); }, adam);
  } else if (name == "cnn-loop") {
    serve_training(
        strategy, read_batches(data, strategy, true), [] { return Cnn(); }, sgd);
  } else {
    STRATA_CHECK(false, kInvalidArgument, "[strata bench] worker: got case ", name,
                 "; expected run, mlp-loop, cnn-loop, wide-loop, mlp-fit, cnn-fit or resnet50");
  }
}

}  // namespace

data::Example read_pool(const std::string& path, int64_t batch) {
  std::ifstream in(path, std::ios::binary);
  int64_t head[4] = {};
  in.read(reinterpret_cast<char*>(head), sizeof(head));
  STRATA_CHECK(in.good() && head[1] > 0 && (batch == 0 || head[1] == batch), kDataLoss,
               "[strata bench] worker: cannot read ", path);
  const auto x = torch::empty({head[0], head[1], head[2]});
  const auto y = torch::empty({head[0], head[1]}, torch::kLong);
  in.read(static_cast<char*>(x.data_ptr()), static_cast<std::streamsize>(x.nbytes()));
  in.read(static_cast<char*>(y.data_ptr()), static_cast<std::streamsize>(y.nbytes()));
  STRATA_CHECK(in.good(), kDataLoss, "[strata bench] worker: ", path, " is cut short");
  return {x, y};
}

MirroredStrategy make_strategy(int replicas, const std::string& device,
                               std::optional<bool> share_storage) {
  set_logical_devices(device == "gpu" ? "gpu:0" : device, replicas);
  MirroredOptions options;
  for (int i = 0; i < replicas; ++i) options.devices.push_back(str_cat(device, ":", i));
  options.seed = 1;
  options.replicas.threads_per_replica = 1;
  options.replicas.share_storage = share_storage;
  return MirroredStrategy(options);
}

int run_worker(const std::vector<std::string>& arguments) {
  std::string name, data, cluster, storage;
  std::string device = "cpu";
  std::optional<bool> overlap;
  int replicas = 1;
  tools::CommandLine line("strata bench worker", {});
  line.text("--case", "C", "", name);
  line.text("--data", "FILE", "", data);
  line.number("--replicas", "N", "", replicas, 1);
  line.text("--device", "cpu|gpu", "", device);
  line.text("--cluster", "yes|servers|servers-ahead|servers-in-step", "", cluster);
  line.text("--storage", "central|...", "", storage);
  line.option("--overlap", "yes|no", "",
              [&](const std::string& value) { overlap = value == "yes"; });
  STRATA_CHECK(line.read(arguments), kInvalidArgument, "[strata bench] got --help for a worker");
  if (name == "resnet50") return run_models_worker(data, replicas, device);
  torch::manual_seed(1);
  if (cluster == "yes") {
    MultiWorkerMirroredStrategy strategy({.devices = {"cpu:0"},
                                          .seed = 1,
                                          .communication_options = {.overlap = overlap},
                                          .replicas = {.threads_per_replica = 1}});
    serve_case(strategy, name, data);
    return 0;
  }
  if (cluster.starts_with("servers")) {
    ParameterServerStrategyOptions options{
        .devices = {"cpu:0"}, .seed = 1, .replicas = {.threads_per_replica = 1}};
    options.pull_ahead = cluster == "servers-ahead";
    if (cluster == "servers-in-step") options.consistency.kind = ps::Consistency::kSynchronous;
    ParameterServerStrategy strategy(options);
    serve_case(strategy, name, data);
    return 0;
  }
  if (storage == "central") {
    set_logical_devices("cpu", replicas);
    CentralStorageStrategy strategy({.seed = 1, .replicas = {.threads_per_replica = 1}});
    serve_case(strategy, name, data);
    return 0;
  }
  std::optional<bool> share_storage;
  if (storage == "shared" || storage == "copies") share_storage = storage == "shared";
  MirroredStrategy strategy = make_strategy(replicas, device, share_storage);
  if (name == "mlp-fit" || name == "cnn-fit") {
    const bool images = name == "cnn-fit";
    const data::Example pool = read_pool(data, kBatch);
    const at::Tensor x = images ? pool.x().reshape({-1, 28, 28, 1}) : pool.x().flatten(0, 1);
    serve_fit(strategy, {x, pool.y().flatten()}, kBatch * replicas, images);
  } else {
    serve_case(strategy, name, data);
  }
  return 0;
}

}  // namespace strata::bench
