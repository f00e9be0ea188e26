// A program that trains on MNIST with 8 replicas, wherever they live, for the tests beside it:
//
//   strata_multi_worker_trainer fit|loop|count REPLICAS [FOLDER [elastic]]
//
// count: as counted_steps.h says. REPLICAS: of this process; STRATA_TEST_BATCH: rows of a global batch (60). The cluster is TF_CONFIG's, the communicator's implementation that of
// the environment variable STRATA_TEST_IMPLEMENTATION, the liveness interval 2 s or
// STRATA_TEST_LIVENESS_MS; with STRATA_TEST_AWAIT=<step> it waits there until a lost worker is
// back. With STRATA_TEST_GRAPHS fit's steps are graphs from their third call on, and it prints "graphs
// N"; without it so short a run has none. FOLDER: where it keeps its state and goes on from. It prints "starts at step N", "step N"
// after each step and, if nobody stops it, "sha256 <digest>" of weights, slots and what was
// measured, "accuracy <a>", and, of fit with a folder, "files <digest>" of what the callbacks
// wrote. STRATA_TEST_DEVICE=gpu: the replicas have a GPU each; STRATA_TEST_ANY_ORDER: their sums are added
// in any order; STRATA_TEST_COMPRESSION: `gradient_compression`. STRATA_TEST_TIMEOUT_MS: of a collective. STRATA_TEST_DTYPE=float64: weights and
// arithmetic. STRATA_TEST_WEIGHTS=FILE: where it writes the weights, as float64.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tensor.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/sha256.h"
#include "keras/training/step_graphs.h"
#include "keras/training/training_run.h"
#include "multi_worker/await_the_lost.h"
#include "multi_worker/counted_steps.h"
#include "multi_worker/loop_step.h"
#include "strata/checkpoint/checkpoint_manager.h"
#include "strata/checkpoint/preemption.h"
#include "strata/core/file_system.h"
#include "strata/core/interrupt.h"
#include "strata/data/mnist.h"
#include "strata/keras/callbacks.h"
#include "strata/keras/dtype_policy.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/sequential.h"
#include "strata/optim/metrics.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/sync_batch_norm.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"
#include "strata/strategies/replicate.h"
#include "strata/tensor/fingerprint.h"
#include "support/test_devices.h"

namespace {

using namespace strata;  // NOLINT
using data::Example;

constexpr int64_t kRows = 1000;

/// Rows of a global batch: 60 are not divided by 8.
int64_t batch_size() {
  const char* rows = std::getenv("STRATA_TEST_BATCH");
  return rows == nullptr ? 60 : std::atoi(rows);
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

/// Of images, or of batches of them.
data::Dataset with_channel(const data::Dataset& dataset) {
  return dataset.map([](const Example& e) { return Example{e.x().unsqueeze(-1), e.y()}; });
}

void report(const std::vector<at::Tensor>& state, double accuracy) {
  say(str_cat("sha256 ", tensor::fingerprint(state)));
  say(str_cat("accuracy ", accuracy));
}

void write_weights(const std::vector<at::Tensor>& state) {
  const char* path = std::getenv("STRATA_TEST_WEIGHTS");
  if (path == nullptr) return;
  std::string bytes;
  for (const at::Tensor& each : state) {
    const at::Tensor values = each.cpu().to(at::kDouble).contiguous();
    bytes.append(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
  }
  std::ofstream(path, std::ios::binary) << bytes;
}

bool in_float64() {
  const char* dtype = std::getenv("STRATA_TEST_DTYPE");
  return dtype != nullptr && std::string(dtype) == "float64";
}

struct Steps : callbacks::Callback {
  explicit Steps(MultiWorkerMirroredStrategy& strategy) : strategy(strategy) {}
  void on_train_batch_end(int64_t, keras::Logs&) override {
    say(str_cat("step ", run().train_steps()));
    test::await_the_lost(strategy, run().train_steps());
  }

  MultiWorkerMirroredStrategy& strategy;
};

struct Starts : callbacks::Callback {
  void on_restore() override { say(str_cat("starts at step ", run().train_steps())); }
};

void fit(MultiWorkerMirroredStrategy& strategy, const std::string& folder) {
  keras::set_random_seed(1);
  const data::Mnist mnist = data::load_mnist();
  if (in_float64()) keras::set_dtype_policy("float64");
  const keras::Model model = strategy.scope([&] {
    return keras::Sequential(
        keras::Input({28, 28, 1}),
        {layers::Conv2D(8, 3, {.strides = {2}, .activation = "relu"}), layers::BatchNormalization(),
         layers::MaxPooling2D(2), layers::Flatten(), layers::Dropout(0.2), layers::Dense(10)});
  });
  model.compile({.optimizer = optimizers::Adam({.learning_rate = 0.01}),
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {"accuracy"}});
  const bool graphs = std::getenv("STRATA_TEST_GRAPHS") != nullptr;
  if (graphs) model->graphs().record_at_once();
  std::vector<callbacks::CallbackRef> callbacks = {Steps(strategy)};
  const std::vector<std::string> files = {folder + "/log.csv", folder + "/best.weights.h5"};
  if (!folder.empty()) {
    callbacks.emplace_back(callbacks::CSVLogger(files[0]));
    callbacks.emplace_back(callbacks::ModelCheckpoint(
        files[1], {.monitor = "loss", .save_best_only = true, .save_weights_only = true}));
    callbacks.emplace_back(
        callbacks::TensorBoard(folder + "/logs", {.histogram_freq = 1, .update_freq = 5}));
    callbacks.emplace_back(callbacks::BackupAndRestore(folder + "/backup", {.save_freq = 3}));
    callbacks.emplace_back(Starts());
  }
  const auto train =
      with_channel(mnist.train_dataset().take(kRows).shuffle(500, {.seed = 7})).batch(batch_size());
  const keras::History history =
      model.fit(train, {.epochs = 3, .callbacks = callbacks, .verbose = 0});
  const double accuracy =
      model.evaluate(with_channel(mnist.test_dataset().take(1000).batch(250)), {.verbose = 0})
          .at("accuracy");
  std::vector<at::Tensor> state;
  for (const keras::Weight& weight : model->weights()) {
    state.push_back(weight.variable.value().detach());
  }
  for (const auto& [name, slot] : model.optimizer().slots()) state.push_back(slot);
  for (const auto& [name, values] : history.history)
    state.push_back(at::tensor(values, at::kDouble));
  write_weights(state);
  // A last batch of fewer rows than there are replicas.
  state.push_back(
      model.predict(with_channel(mnist.test_dataset().take(65).batch(20)), {.verbose = 0}));
  report(state, accuracy);
  if (graphs) say(str_cat("graphs ", model->graphs().tracing_count()));
  if (folder.empty()) return;
  model.save(folder + "/whole.keras");
  Sha256 sha;
  for (const std::string& file : files) {
    const std::string text = read_file(file);
    sha.update(text.data(), text.size());
  }
  say(str_cat("files ", sha.hex_digest()));
}

class Net : public torch::nn::Module {
 public:
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor h = at::relu(shared_norm_->forward(conv_(x)));
    return out_(at::dropout(own_norm_(h).flatten(1), 0.2, is_training()));
  }

 private:
  torch::nn::Conv2d conv_ =
      register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 6, 5).stride(3)));
  SyncBatchNorm shared_norm_ =
      register_module("shared_norm", SyncBatchNorm(SyncBatchNormOptions(6)));
  torch::nn::BatchNorm2d own_norm_ = register_module("own_norm", torch::nn::BatchNorm2d(6));
  torch::nn::Linear out_ = register_module("out", torch::nn::Linear(6 * 64, 10));
};

struct Loop {
  MultiWorkerMirroredStrategy& strategy;
  const data::Dataset& dataset;
  const Replicated<Net>& net;
  optimizers::SGD& sgd;
  std::string folder;  // empty: nothing is saved
  std::vector<double> losses = {};

  void run();
};

/// From the last checkpoint to the end.
void Loop::run() {
  const DistributedDataset batches = strategy.distribute(dataset);
  auto input = batches.iterator(0);
  int64_t epoch = 0;
  Checkpoint checkpoint(
      {{"net", net}, {"sgd", sgd}, {"input", input}, {"epoch", epoch}, {"losses", losses}});
  std::optional<CheckpointManager> manager;
  std::optional<PreemptionCheckpointHandler> preemption;
  if (!folder.empty()) {
    manager.emplace(checkpoint, folder + "/run", CheckpointManagerOptions{.max_to_keep = 2});
    if (!manager->restore_or_initialize()) (void)manager->save();
    preemption.emplace(*manager);
    say(str_cat("starts at step ", losses.size()));
  }
  while (epoch < 3) {
    const auto batch = input.next();
    if (!batch) {
      input = batches.iterator(++epoch);
      continue;
    }
    losses.push_back(test::loop_step(strategy, net, sgd, *batch));
    if (losses.size() % 10 == 0) strategy.verify_replicas(net.variables());
    say(str_cat("step ", losses.size()));
    test::await_the_lost(strategy, static_cast<int64_t>(losses.size()));
    if (!manager) continue;
    preemption->check(static_cast<int64_t>(losses.size()));
    if (losses.size() % 3 == 0) (void)manager->save();
  }
}

void loop(MultiWorkerMirroredStrategy& strategy, const std::string& folder) {
  const data::Mnist mnist = data::load_mnist();
  const at::ScalarType dtype = in_float64() ? at::kDouble : at::kFloat;
  const auto net = strategy.replicate([dtype] {
    auto made = std::make_shared<Net>();
    made->to(dtype);
    return made;
  });
  optimizers::SGD sgd(net.variables(), {.learning_rate = 0.05, .momentum = 0.9});
  const auto channels = [dtype](const Example& batch) {
    return Example{batch.x().unsqueeze(1).to(dtype), batch.y()};
  };
  const data::Dataset train =
      mnist.train_dataset().take(kRows).shuffle(500, {.seed = 7}).batch(batch_size()).map(channels);
  Loop training{.strategy = strategy, .dataset = train, .net = net, .sgd = sgd, .folder = folder};
  while (true) {
    try {
      training.run();
      break;
    } catch (const Error& error) {
      if (!strategy.recover(error)) throw;
    }
  }
  net->eval();
  metrics::Mean accuracy("accuracy");
  strategy.scope([&] { accuracy.build(); });
  for (const auto& batch :
       strategy.distribute(mnist.test_dataset().take(1000).batch(250).map(channels))) {
    strategy.run(
        [&](const Example& part) {
          const at::NoGradGuard no_grad;
          accuracy.update(metrics::sparse_categorical_accuracy(part.y(), net->forward(part.x())));
        },
        batch);
  }
  std::vector<at::Tensor> state = {at::tensor(training.losses, at::kDouble)};
  for (const auto& variables : {net.variables(), net.buffers()}) {
    for (const Variable& variable : variables) state.push_back(variable.value().detach());
  }
  for (const auto& [name, slot] : sgd.slots()) state.push_back(slot);
  write_weights(state);
  report(state, accuracy.result());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr,
                 "usage: strata_multi_worker_trainer fit|loop|count REPLICAS [FOLDER [elastic]]\n");
    return 2;
  }
  try {
    at::manual_seed(1);
    const int replicas = std::atoi(argv[2]);
    const bool on_gpus = test::runs_on_gpus();
    if (!on_gpus) set_logical_devices("cpu", replicas);
    MultiWorkerMirroredOptions options{.seed = 3};
    for (int i = 0; i < replicas; ++i) {
      options.devices.push_back(str_cat(on_gpus ? "gpu:" : "cpu:", i));
    }
    options.replicas.threads_per_replica = 1;
    options.replicas.permits = 1;
    if (std::string(argv[1]) == "loop")
      options.replicas.share_storage = true;  // as if it were large
    options.server.liveness = std::chrono::seconds(2);
    options.server.start_timeout = std::chrono::seconds(60);
    if (const char* liveness = std::getenv("STRATA_TEST_LIVENESS_MS")) {
      options.server.liveness = std::chrono::milliseconds(std::atoi(liveness));
    }
    if (const char* implementation = std::getenv("STRATA_TEST_IMPLEMENTATION")) {
      options.communication_options.implementation = implementation;
    }
    if (const char* timeout = std::getenv("STRATA_TEST_TIMEOUT_MS")) {
      options.communication_options.timeout = std::chrono::milliseconds(std::atoi(timeout));
    }
    if (std::getenv("STRATA_TEST_ANY_ORDER") != nullptr) {
      options.communication_options.order = collective::Order::kAny;
    }
    if (const char* compression = std::getenv("STRATA_TEST_COMPRESSION")) {
      options.communication_options.gradient_compression = compression;
    }
    options.shard_optimizer_state = std::getenv("STRATA_TEST_SHARD") != nullptr;
    options.elastic = argc > 4 && std::string(argv[4]) == "elastic";
    MultiWorkerMirroredStrategy strategy(options);
    const std::string folder = argc > 3 ? argv[3] : "";
    const std::string mode = argv[1];
    if (mode == "count") {
      test::count_steps(strategy);
    } else {
      mode == "fit" ? fit(strategy, folder) : loop(strategy, folder);
    }
    return 0;
  } catch (const Preempted& preempted) {
    return preempted.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
