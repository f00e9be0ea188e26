// A small program that trains with 4 replicas, wherever they live, and writes down which samples
// each step used, for faults_test.cc:
//
//   strata_fault_trainer fit|loop REPLICAS FOLDER [elastic]
//
// REPLICAS: of this process; the cluster is TF_CONFIG's, the communicator's implementation that of
// STRATA_TEST_IMPLEMENTATION. FOLDER: where it keeps its state and goes on from. What
// STRATA_TEST_FAULT wants happens to it (fault_points.h); with STRATA_TEST_AWAIT=<step> it waits
// there until a lost worker is back.
//
// It prints, a line each: "attempt <time> <step>" when it begins, or goes on from a step, with a
// time that is the same in all processes that do so together; "step <n> <epoch>: <id> ..." after
// each step, with this process's samples; "error <ns> <what>" for every error that it meets, with
// the time of the steady clock; "workers <n>" and "sha256 <digest>" of weights, slots and history
// at its end.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "keras/training/training_run.h"
#include "multi_worker/await_the_lost.h"
#include "multi_worker/fault_points.h"
#include "multi_worker/loop_step.h"
#include "strata/checkpoint/checkpoint_manager.h"
#include "strata/checkpoint/preemption.h"
#include "strata/core/log.h"
#include "strata/keras/callbacks.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/sequential.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"
#include "strata/strategies/replicate.h"
#include "strata/tensor/fingerprint.h"

namespace {

using namespace strata;  // NOLINT
using data::Example;
using test::await_the_lost;
using test::begin_phase;
using test::end_phase;

constexpr int64_t kSamples = 48;
constexpr int64_t kBatch = 10;  // not divided by 4, and the last one has 8
constexpr int64_t kEpochs = 3;
constexpr int64_t kSaveEvery = 2;

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

int64_t nanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void say_error(std::string_view what) { say(str_cat("error ", nanoseconds(), " ", what)); }

/// The ids of the samples that this process's replicas use.
class Journal {
 public:
  void add(const at::Tensor& features) {
    const std::lock_guard lock(mutex_);
    for (int64_t row = 0; row < features.size(0); ++row) {
      ids_.push_back(features[row][0].item<int64_t>());
    }
  }
  void step_ends(int64_t step, int64_t epoch) {
    say(str_cat("step ", step, " ", epoch, ":", take()));
  }
  void begins(const MultiWorkerMirroredStrategy& strategy, int64_t step) {
    (void)take();  // of a step that was broken off
    std::string now = std::to_string(nanoseconds());
    if (const auto server = strategy.server()) {
      constexpr auto kKey = "test/attempt";  // of this generation
      if (strategy.is_chief()) server->set(kKey, now);
      now = server->get(kKey, wire::Deadline::after(std::chrono::seconds(20)));
    }
    say(str_cat("attempt ", now, " ", step));
  }

 private:
  std::string take() {
    const std::lock_guard lock(mutex_);
    std::string text;
    for (const int64_t id : ids_) text += str_cat(" ", id);
    ids_.clear();
    return text;
  }

  std::mutex mutex_;
  std::vector<int64_t> ids_;
};

data::Dataset samples() {
  std::vector<at::Tensor> features;
  std::vector<int64_t> labels;
  for (int64_t id = 0; id < kSamples; ++id) {
    const auto x = static_cast<double>(id);
    features.push_back(at::tensor({x, x * 7 - 11 * static_cast<double>(id * 7 / 11), 1.5}));
    labels.push_back(id * 5 % 3);
  }
  return data::Dataset::from_tensor_slices(
             {at::stack(features).to(at::kFloat), at::tensor(labels, at::kLong)})
      .shuffle(kSamples, {.seed = 7})
      .batch(kBatch);
}

at::Tensor scaled(const at::Tensor& features) { return features / 24 - 1; }

void report(const MultiWorkerMirroredStrategy& strategy, const std::vector<at::Tensor>& state) {
  say(str_cat("workers ", strategy.num_workers()));
  say(str_cat("sha256 ", tensor::fingerprint(state)));
}

// ---- fit ----

/// Before BackupAndRestore in the list.
struct Before : callbacks::Callback {
  Before(MultiWorkerMirroredStrategy& strategy, Journal& journal)
      : strategy(strategy), journal(journal) {}
  void on_train_batch_begin(int64_t) override {
    await_the_lost(strategy, run().train_steps());
    begin_phase("collective", run().train_steps() + 1);
  }
  void on_train_batch_end(int64_t, keras::Logs&) override {
    end_phase("collective", run().train_steps());
    journal.step_ends(run().train_steps(), run().epoch());
  }
  void on_resume_point() override { begin_phase("checkpoint", run().train_steps()); }

  MultiWorkerMirroredStrategy& strategy;
  Journal& journal;
};

/// Behind it.
struct Behind : callbacks::Callback {
  Behind(MultiWorkerMirroredStrategy& strategy, Journal& journal)
      : strategy(strategy), journal(journal) {}
  void on_restore() override { journal.begins(strategy, run().train_steps()); }
  void on_resume_point() override { end_phase("checkpoint", run().train_steps()); }

  MultiWorkerMirroredStrategy& strategy;
  Journal& journal;
};

void fit(MultiWorkerMirroredStrategy& strategy, const std::string& folder) {
  keras::set_random_seed(1);
  Journal journal;
  const layers::Lambda seen([&](const at::Tensor& x, const keras::Call& call) {
    if (call.training) journal.add(x);
    return scaled(x);
  });
  const keras::Model model = strategy.scope([&] {
    return keras::Sequential(keras::Input({3}),
                             {seen, layers::Dense(8, "relu"), layers::BatchNormalization(),
                              layers::Dropout(0.2), layers::Dense(3)});
  });
  model.compile({.optimizer = optimizers::Adam({.learning_rate = 0.01}),
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {"accuracy"}});
  const keras::History history = model.fit(
      samples(), {.epochs = kEpochs,
                  .callbacks = {Before(strategy, journal),
                                callbacks::BackupAndRestore(folder, {.save_freq = kSaveEvery}),
                                Behind(strategy, journal)},
                  .verbose = 0});
  std::vector<at::Tensor> state;
  for (const keras::Weight& weight : model->weights()) {
    state.push_back(weight.variable.value().detach());
  }
  for (const auto& [name, slot] : model.optimizer().slots()) state.push_back(slot);
  for (const auto& [name, values] : history.history) {
    state.push_back(at::tensor(values, at::kDouble));
  }
  report(strategy, state);
}

// ---- a loop of one's own ----

class Net : public torch::nn::Module {
 public:
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor h = at::relu(norm_(in_(scaled(x))));
    return out_(at::dropout(h, 0.2, is_training()));
  }

 private:
  torch::nn::Linear in_ = register_module("in", torch::nn::Linear(3, 8));
  torch::nn::BatchNorm1d norm_ = register_module("norm", torch::nn::BatchNorm1d(8));
  torch::nn::Linear out_ = register_module("out", torch::nn::Linear(8, 3));
};

struct Training {
  MultiWorkerMirroredStrategy& strategy;
  const Replicated<Net>& net;
  optimizers::SGD& sgd;
  std::string folder;
  Journal journal = {};
  std::vector<double> losses = {};

  void run();
};

/// From the last checkpoint to the end.
void Training::run() {
  const DistributedDataset batches = strategy.distribute(samples());
  auto input = batches.iterator(0);
  int64_t epoch = 0;
  Checkpoint checkpoint(
      {{"net", net}, {"sgd", sgd}, {"input", input}, {"epoch", epoch}, {"losses", losses}});
  CheckpointManager manager(checkpoint, folder, {.max_to_keep = 2});
  if (manager.restore_or_initialize()) {
    manager.status().assert_consumed();
  } else {
    (void)manager.save();
  }
  PreemptionCheckpointHandler preemption(manager);
  journal.begins(strategy, static_cast<int64_t>(losses.size()));
  while (epoch < kEpochs) {
    await_the_lost(strategy, static_cast<int64_t>(losses.size()));
    const auto batch = input.next();
    if (!batch) {
      input = batches.iterator(++epoch);
      continue;
    }
    const auto number = static_cast<int64_t>(losses.size()) + 1;
    begin_phase("collective", number);
    losses.push_back(test::loop_step(strategy, net, sgd, *batch,
                                     [&](const Example& part) { journal.add(part.x()); }));
    end_phase("collective", number);
    journal.step_ends(number, epoch);
    begin_phase("checkpoint", number);
    preemption.check(number);
    if (number % kSaveEvery == 0) (void)manager.save();
    end_phase("checkpoint", number);
  }
}

void loop(MultiWorkerMirroredStrategy& strategy, const std::string& folder) {
  const auto net = strategy.replicate([] { return std::make_shared<Net>(); });
  optimizers::SGD sgd(net.variables(), {.learning_rate = 0.05, .momentum = 0.9});
  Training training{.strategy = strategy, .net = net, .sgd = sgd, .folder = folder};
  while (true) {
    try {
      training.run();
      break;
    } catch (const Error& error) {
      if (!strategy.recover(error)) throw;
    }
  }
  std::vector<at::Tensor> state = {at::tensor(training.losses, at::kDouble)};
  for (const auto& variables : {net.variables(), net.buffers()}) {
    for (const Variable& variable : variables) state.push_back(variable.value().detach());
  }
  for (const auto& [name, slot] : sgd.slots()) state.push_back(slot);
  report(strategy, state);
}

void run(const std::string& mode, int replicas, const std::string& folder, bool elastic) {
  at::manual_seed(1);
  set_logical_devices("cpu", replicas);
  MultiWorkerMirroredOptions options{.seed = 3};
  for (int i = 0; i < replicas; ++i) options.devices.push_back(str_cat("cpu:", i));
  options.replicas.threads_per_replica = 1;
  options.replicas.permits = 1;
  if (mode == "loop") options.replicas.share_storage = true;  // as if it were large
  options.server.liveness = std::chrono::milliseconds(1500);
  options.server.start_timeout = std::chrono::seconds(elastic ? 8 : 4);
  if (const char* implementation = std::getenv("STRATA_TEST_IMPLEMENTATION")) {
    options.communication_options.implementation = implementation;
  }
  options.elastic = elastic;
  begin_phase("rendezvous");
  MultiWorkerMirroredStrategy strategy(options);
  end_phase("rendezvous");
  mode == "fit" ? fit(strategy, folder) : loop(strategy, folder);
  begin_phase("shutdown");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: strata_fault_trainer fit|loop REPLICAS FOLDER [elastic]\n");
    return 2;
  }
  // What an elastic job has met, and goes on from.
  set_log_sink([](const LogRecord& record) {
    if (record.message.starts_with("[multi_worker_mirrored_strategy] [cluster]")) {
      say_error(record.message);
    } else {
      std::fprintf(stderr, "%s\n", format_log_record(record).c_str());
    }
  });
  try {
    run(argv[1], std::atoi(argv[2]), argv[3], argc > 4);
    end_phase("shutdown");
    return 0;
  } catch (const Preempted& preempted) {
    return preempted.exit_code();
  } catch (const std::exception& error) {
    say_error(error.what());
    return 1;
  }
}
