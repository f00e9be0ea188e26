// A program that calls fit with every callback, for fit_kill_test.cc:
//
//   strata_fit_trainer FOLDER [PERMITS]
//
// prints "starts at step N" and, if nobody kills it, "sha256 <digest>" of weights, optimizer,
// history, log, best checkpoint and what EarlyStopping found.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>

#include "core/sha256.h"
#include "keras/training/training_run.h"
#include "strata/core/file_system.h"
#include "strata/data/random_numbers.h"
#include "strata/keras/callbacks.h"
#include "strata/keras/layer.h"
#include "strata/keras/layers.h"
#include "strata/keras/losses.h"
#include "strata/keras/metrics.h"
#include "strata/keras/sequential.h"
#include "strata/optim/optimizers.h"
#include "strata/runtime/devices.h"
#include "strata/strategies/mirrored_strategy.h"

namespace {

using namespace strata;  // NOLINT
using data::ElementKey;
using data::Example;
using data::RandomNumbers;

constexpr int kReplicas = 3;
constexpr int64_t kRows = 200;

struct Starts : callbacks::Callback {
  void on_restore() override {
    std::printf("starts at step %lld\n", static_cast<long long>(run().train_steps()));
    std::fflush(stdout);
  }
};

data::Dataset rows() {
  const at::Tensor x = (at::arange(kRows * 8, at::kFloat) * 12.9898).sin().view({kRows, 8});
  const at::Tensor y = at::arange(kRows, at::kLong).mul(7).remainder(5);
  return data::Dataset::from_tensor_slices({x, y});
}

void train(const std::string& folder, int permits) {
  set_logical_devices("cpu", kReplicas);
  MirroredOptions options{.seed = 3};
  for (int i = 0; i < kReplicas; ++i) options.devices.push_back(str_cat("cpu:", i));
  options.replicas.permits = permits;
  options.replicas.threads_per_replica = 1;
  MirroredStrategy strategy(options);
  keras::set_random_seed(1);
  const keras::Model model = strategy.scope([] {
    return keras::Sequential(keras::Input({8}),
                             {layers::Dense(24, "relu"), layers::BatchNormalization(),
                              layers::Dropout(0.2), layers::Dense(5)});
  });
  model.compile({.optimizer = optimizers::Adam({.learning_rate = 0.02}),
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {"accuracy"}});
  const auto input = rows()
                         .take(150)
                         .shuffle(64, {.seed = 11})
                         .map(
                             [](const Example& row, const ElementKey& key) {
                               RandomNumbers random(key);
                               return Example{row[0] * random.uniform(0.5, 1.5), row[1]};
                             },
                             {.num_parallel_calls = 2, .seed = 5})
                         .batch(32);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> nowhere(std::fopen("/dev/null", "w"),
                                                                &std::fclose);
  const auto early = std::make_shared<callbacks::EarlyStopping>(
      callbacks::EarlyStoppingOptions{.patience = 3, .restore_best_weights = true});
  const std::string best = folder + "/best.weights.h5";
  const keras::History history = model.fit(
      input,
      {.epochs = 12,
       .validation_data = rows().skip(150).batch(20),
       .callbacks =
           {callbacks::ProgressBar({.file = nowhere.get()}), early,
            callbacks::ReduceLROnPlateau({.factor = 0.5, .patience = 1}),
            callbacks::LearningRateScheduler(
                [](int64_t epoch, double rate) { return epoch < 6 ? rate : rate * 0.95; }),
            callbacks::TerminateOnNaN(), callbacks::CSVLogger(folder + "/log.csv"),
            callbacks::ModelCheckpoint(best, {.save_best_only = true, .save_weights_only = true}),
            callbacks::TensorBoard(folder + "/logs", {.histogram_freq = 2, .update_freq = 3}),
            callbacks::LambdaCallback(
                {.on_epoch_end =
                     [](int64_t, keras::Logs& logs) { logs.set("twice", 2 * logs.at("loss")); }}),
            callbacks::BackupAndRestore(folder + "/backup", {.save_freq = 3}), Starts()},
       .verbose = 1});

  Sha256 sha;
  const auto add = [&](const std::string& text) { sha.update(text.data(), text.size()); };
  const auto add_tensor = [&](const at::Tensor& tensor) {
    const at::Tensor value = tensor.detach().contiguous();
    sha.update(value.const_data_ptr(), value.nbytes());
  };
  for (const keras::Weight& weight : model->weights()) {
    for (int r = 0; r < kReplicas; ++r) add_tensor(weight.variable.on_replica(r));
  }
  for (const auto& [name, slot] : model.optimizer().slots()) add_tensor(slot);
  for (const auto& [name, values] : history.history) {
    add(name);
    sha.update(values.data(), values.size() * sizeof(double));
  }
  add(read_file(folder + "/log.csv"));
  add(read_file(best));
  add(str_cat(early->best_epoch(), " ", early->stopped_epoch(), " ",
              model.optimizer().learning_rate(), " ", model.optimizer().iterations()));
  std::printf("sha256 %s\n", sha.hex_digest().c_str());
}

}  // namespace

int main(int argc, char** argv) try {
  train(argv[1], argc > 2 ? std::atoi(argv[2]) : 0);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
