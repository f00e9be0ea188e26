// The other strategies with replicas on GPUs: as on CPUs.

#include <gtest/gtest.h>

#include <mutex>

#include "gpu/gpus.h"
#include "parity/models.h"
#include "strata/runtime/cross_device_ops.h"
#include "strata/strategies/central_storage_strategy.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"
#include "support/thread_cluster.h"

namespace strata::parity {
namespace {

using test::logical_gpus;

constexpr int kSteps = 10;
const std::vector<int64_t> kBatchSizes = {13, 7, 16, 3};

std::vector<OptimizerCase> some_optimizers() {
  return {optimizer_case<optimizers::Adam>("adam", optimizers::AdamOptions{.learning_rate = 0.01}),
          optimizer_case<optimizers::Sgd>(
              "sgd momentum clipnorm",
              optimizers::SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .clipnorm = 0.05})};
}

void expect_parity(Strategy& strategy) {
  for (const Kind kind : kAllKinds) {
    const Batches batches = make_batches(kind, at::kDouble, kSteps, kBatchSizes);
    for (const OptimizerCase& each : some_optimizers()) {
      SCOPED_TRACE(str_cat(name_of(kind), ", ", each.name));
      const Outcome cpu = train_on_one_device(kind, at::kDouble, batches, each, Form::kAverageLoss);
      const Outcome gpu =
          train_under(strategy, kind, at::kDouble, batches, each, Form::kAverageLoss);
      EXPECT_LE(difference(gpu.weights, cpu.weights), 1e-7);
      EXPECT_LE(difference(gpu.slots, cpu.slots), 1e-7);
      EXPECT_LE(difference(gpu.buffers, cpu.buffers), 1e-7);
    }
  }
}

class GpuStrategiesTest : public test::GpuTest {};

TEST_F(GpuStrategiesTest, CentralStorageOnTheCpu) {
  CentralStorageStrategy strategy(
      {.compute_devices = logical_gpus(2), .parameter_device = "cpu:0"});
  expect_parity(strategy);
}

TEST_F(GpuStrategiesTest, CentralStorageOnAGpu) {
  CentralStorageStrategy strategy(
      {.compute_devices = logical_gpus(3), .parameter_device = "gpu:0"});
  expect_parity(strategy);
}

TEST_F(GpuStrategiesTest, HierarchicalCopy) {
  MirroredStrategy strategy({.devices = logical_gpus(3),
                             .cross_device_ops = std::make_shared<HierarchicalCopyAllReduce>(
                                 PackingOptions{.num_packs = 2})});
  expect_parity(strategy);
}

TEST_F(GpuStrategiesTest, GpusBesideACpu) {
  std::vector<std::string> devices = logical_gpus(2);
  devices.push_back("cpu:0");
  MirroredStrategy strategy({.devices = devices});
  expect_parity(strategy);
}

TEST_F(GpuStrategiesTest, SeveralWorkers) {
  const std::vector<std::string> devices = logical_gpus(2);
  test::ThreadCluster cluster(test::ThreadCluster::spec_of({{"worker", 2}}));
  test::expect_all_ok(cluster.run([&](test::ThreadCluster::Task& task) {
    MultiWorkerMirroredStrategy strategy(
        task.taking_part(MultiWorkerMirroredOptions{.devices = devices}));
    expect_parity(strategy);
  }));
}

}  // namespace
}  // namespace strata::parity
