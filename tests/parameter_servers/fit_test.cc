// `fit` under ParameterServerStrategy: each worker's own, but for the files.
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "keras/training/training_run.h"
#include "ps/ps_cluster.h"
#include "strata/cluster/resolvers.h"
#include "strata/core/file_system.h"
#include "strata/keras/callbacks.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/sequential.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/parameter_server_strategy.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

using test::PsCluster;

constexpr int64_t kBatches = 6;  // of all workers, an epoch

/// What a worker's callbacks saw.
struct Seen {
  std::vector<int64_t> batches;  // of each epoch
  std::vector<double> rates;
  int64_t logs_with_loss = 0;
  int64_t ends = 0;
};

/// Ends its worker's training after `epochs`.
struct Stops : callbacks::Callback {
  explicit Stops(int64_t epochs) : epochs_(epochs) {}
  void on_epoch_end(int64_t epoch, keras::Logs&) override {
    if (epoch + 1 == epochs_) run().stop_training();
  }

 private:
  const int64_t epochs_;
};

Seen fit(ParameterServerStrategy& strategy, const std::string& folder, int64_t stop_after) {
  static std::mutex names;  // of layers are counted in each process, and the workers are threads
  keras::Sequential model = [&] {
    const std::lock_guard lock(names);
    return strategy.scope(
        [] { return keras::Sequential(keras::Input({3}), {layers::Dense(1, {.name = "dense"})}); });
  }();
  model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.1}), .loss = "mse"});
  Seen seen;
  const auto watch = std::make_shared<callbacks::LambdaCallback>(callbacks::LambdaCallbackOptions{
      .on_epoch_begin = [&](int64_t) { seen.batches.push_back(0); },
      .on_epoch_end =
          [&](int64_t, keras::Logs& logs) {
            seen.logs_with_loss += logs.find("loss").has_value() ? 1 : 0;
            seen.rates.push_back(logs.find("learning_rate").value_or(-1));
          },
      .on_train_batch_end = [&](int64_t, keras::Logs&) { ++seen.batches.back(); },
      .on_train_end = [&](keras::Logs&) { ++seen.ends; }});
  const auto data =
      data::Dataset::from_tensor_slices({at::ones({4 * kBatches, 3}), at::zeros({4 * kBatches, 1})})
          .batch(4);
  model.fit(data, {.epochs = 3,
                   .callbacks = {std::make_shared<callbacks::LearningRateScheduler>(
                                     [](int64_t epoch, double) { return 0.1 / double(epoch + 1); }),
                                 watch,
                                 std::make_shared<callbacks::ModelCheckpoint>(
                                     folder + "/weights-{epoch}.safetensors",
                                     callbacks::ModelCheckpointOptions{.save_weights_only = true}),
                                 std::make_shared<callbacks::CSVLogger>(folder + "/log.csv"),
                                 std::make_shared<Stops>(stop_after)},
                   .verbose = 0});
  return seen;
}

TEST(ParameterServerFitTest, CallbacksAreEachWorkersOwnAndFilesAreTheChiefs) {
  const test::TempFolder folder;
  PsCluster cluster(2, 2);
  std::vector<Seen> seen(2);
  const auto folder_of = [&](int worker) { return folder.path() + "/" + std::to_string(worker); };
  PsCluster::expect_ok(
      cluster.run_tasks([&](const cluster::TaskId& task, cluster::ServerOptions server) {
        ParameterServerStrategyOptions options;
        options.cluster_resolver = std::make_shared<cluster::SimpleResolver>(
            cluster.spec(), cluster::SimpleOptions{.task_type = task.job, .task_id = task.index});
        options.devices = {"cpu:0"};
        options.seed = 5;
        options.server = std::move(server);
        ParameterServerStrategy strategy(options);
        // Worker 1 stops after two epochs, and worker 0 does not.
        seen[static_cast<size_t>(task.index)] =
            fit(strategy, folder_of(task.index), task.index == 1 ? 2 : 9);
      }));
  const std::vector<int64_t> each(3, kBatches / 2);
  EXPECT_EQ(seen[0].batches, each);
  EXPECT_EQ(seen[1].batches, std::vector<int64_t>(each.begin(), each.begin() + 2));
  for (const Seen& worker : seen) {
    EXPECT_EQ(worker.logs_with_loss, static_cast<int64_t>(worker.batches.size()));
    EXPECT_EQ(worker.ends, 1);
    for (size_t epoch = 0; epoch < worker.rates.size(); ++epoch) {
      EXPECT_NEAR(worker.rates[epoch], 0.1 / static_cast<double>(epoch + 1), 1e-7);
    }
  }
  for (const std::string& name : {std::string("weights-1.safetensors"),
                                  std::string("weights-3.safetensors"), std::string("log.csv")}) {
    const auto there = [&](int worker) {
      const std::string path = folder_of(worker) + "/" + name;
      return file_system_of(path).info(path).has_value();
    };
    EXPECT_TRUE(there(0)) << name;
    EXPECT_FALSE(there(1)) << name;
  }
  const std::string log = read_file(folder_of(0) + "/log.csv");
  EXPECT_EQ(std::ranges::count(log, '\n'), 4) << log;  // names, and three epochs
}

}  // namespace
}  // namespace strata
