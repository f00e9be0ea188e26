// The strata side of suite `step`: the program that a user of strata writes, behind the line
// protocol of benchmarks/peers/README.md. The models of the loops are those of
// benchmarks/peers/libtorch_loop.cc.
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "runtime/replica_group.h"
#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "strata/data/example.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/devices.h"
#include "strata/strategies/central_storage_strategy.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"
#include "strata/strategies/parameter_server_strategy.h"
#include "suites/options.h"
#include "suites/serve.h"
#include "suites/torch_modules.h"
#include "suites/training_loop.h"
#include "suites/worker.h"
#include "tools/command_line.h"

namespace strata::bench {
namespace {

constexpr int64_t kBatch = 64;

/// @param images  MNIST's, one channel.
Batches read_batches(const std::string& path, const Strategy& strategy, bool images) {
  const data::Example pool = read_pool(path, 0);
  if (!images) return distribute_batches(pool, strategy);
  const at::Tensor& x = pool.x();
  return distribute_batches({x.view({x.size(0), x.size(1), 1, 28, 28}), pool.y()}, strategy);
}

/// A custom loop under any strategy.
/// @param as_function  The step is a strata::function.
void serve_case(Strategy& strategy, const std::string& name, const std::string& data,
                bool as_function = false) {
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
  } else if (name == "tiny-loop" || name == "small-loop" || name == "mlp-loop") {
    const int64_t features = name == "tiny-loop" ? 128 : 784;
    const int64_t hidden = name == "mlp-loop" ? 256 : 128;
    serve_training(
        strategy, read_batches(data, strategy, false), [=] { return Mlp(features, hidden, 10); },
        adam, as_function);
  } else if (name == "wide-loop") {
    serve_training(
        strategy, read_batches(data, strategy, false), [] { return Mlp(1024, 4096, 1000); }, adam,
        as_function);
  } else if (name == "cnn-loop") {
    serve_training(
        strategy, read_batches(data, strategy, true), [] { return Cnn(); }, sgd, as_function);
  } else {
    STRATA_CHECK(
        false, kInvalidArgument, "[strata bench] worker: got case ", name,
        "; expected run, tiny-loop, small-loop, mlp-loop, cnn-loop, wide-loop, mlp-fit, cnn-fit, "
        "resnet50, dense, transformer, lstm or resnet20");
  }
}

}  // namespace

Batches distribute_batches(const data::Example& pool, const Strategy& strategy) {
  const at::Tensor& x = pool.x();
  const at::Tensor& y = pool.y();
  Batches batches;
  const ReplicaGroup& group = strategy.group();
  for (int64_t i = 0; i + group.num_replicas() <= x.size(0); i += group.num_replicas()) {
    std::vector<data::Example> parts;
    for (int local = 0; local < group.num_local_replicas(); ++local) {
      const int64_t r = i + group.replica_id(local);
      const at::Device device = group.device(local).physical;
      parts.push_back({x[r].to(device), y[r].to(device)});
    }
    batches.emplace_back(std::move(parts));
  }
  return batches;
}

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
                               const ReplicaOptions& replica_options) {
  set_logical_devices(device == "gpu" ? "gpu:0" : device, replicas);
  MirroredOptions options;
  for (int i = 0; i < replicas; ++i) options.devices.push_back(str_cat(device, ":", i));
  options.seed = 1;
  options.replicas = replica_options;
  options.replicas.threads_per_replica = 1;
  return MirroredStrategy(options);
}

int run_worker(const std::vector<std::string>& arguments) {
  std::string name, data, cluster, storage;
  std::string layers = "keras", bits = "native";
  bool bf16 = false, peak = false, as_function = false;
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
  line.text("--layers", "keras|torch|encoder", "", layers);
  line.text("--bits", "native|portable", "", bits);
  line.yes_or_no("--bf16", "", bf16);
  line.yes_or_no("--peak", "", peak);
  line.yes_or_no("--function", "", as_function);
  line.option("--overlap", "yes|no", "",
              [&](const std::string& value) { overlap = value == "yes"; });
  STRATA_CHECK(line.read(arguments), kInvalidArgument, "[strata bench] got --help for a worker");
  if (name == "resnet50") return run_models_worker(data, replicas, device);
  if (peak) serve_peak_of_steps();
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
  ReplicaOptions replica_options{.bits = bits};
  if (storage == "shared" || storage == "copies") {
    replica_options.share_storage = storage == "shared";
  }
  MirroredStrategy strategy = make_strategy(replicas, device, replica_options);
  if (name == "dense" || name == "transformer" || name == "lstm" || name == "resnet20") {
    using Layers = StepModel::Layers;
    serve_step_model(strategy, {.model = name,
                                .data = data,
                                .layers = layers == "torch"     ? Layers::kTorch
                                          : layers == "encoder" ? Layers::kEncoder
                                                                : Layers::kKeras,
                                .bf16 = bf16,
                                .as_function = as_function});
  } else if (name == "mlp-fit" || name == "cnn-fit") {
    const bool images = name == "cnn-fit";
    const data::Example pool = read_pool(data, kBatch);
    const at::Tensor x = images ? pool.x().reshape({-1, 28, 28, 1}) : pool.x().flatten(0, 1);
    serve_fit(strategy, {x, pool.y().flatten()}, kBatch * replicas, images);
  } else {
    serve_case(strategy, name, data, as_function);
  }
  return 0;
}

}  // namespace strata::bench
