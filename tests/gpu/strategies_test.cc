// The other strategies with replicas on GPUs: as on CPUs.

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "gpu/expect_parity.h"
#include "gpu/gpus.h"
#include "strata/collective/reduce_op.h"
#include "strata/runtime/cross_device_ops.h"
#include "strata/strategies/central_storage_strategy.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"
#include "support/thread_cluster.h"

namespace strata::parity {
namespace {

using test::logical_gpus;

void expect_parity_of_all(Strategy& strategy) {
  for (const Kind kind : kAllKinds) {
    expect_parity(
        strategy, kind,
        {optimizer_case<optimizers::Adam>("adam", optimizers::AdamOptions{.learning_rate = 0.01}),
         optimizer_case<optimizers::SGD>(
             "sgd momentum clipnorm",
             optimizers::SGDOptions{.learning_rate = 0.1, .momentum = 0.9, .clipnorm = 0.05})});
  }
}

class GpuStrategiesTest : public test::GpuTest {};

TEST_F(GpuStrategiesTest, CentralStorageOnTheCpu) {
  CentralStorageStrategy strategy(
      {.compute_devices = logical_gpus(2), .parameter_device = "cpu:0"});
  expect_parity_of_all(strategy);
}

TEST_F(GpuStrategiesTest, CentralStorageOnAGpu) {
  CentralStorageStrategy strategy(
      {.compute_devices = logical_gpus(3), .parameter_device = "gpu:0"});
  expect_parity_of_all(strategy);
}

TEST_F(GpuStrategiesTest, HierarchicalCopy) {
  MirroredStrategy strategy({.devices = logical_gpus(3),
                             .cross_device_ops = std::make_shared<HierarchicalCopyAllReduce>(
                                 PackingOptions{.num_packs = 2})});
  expect_parity_of_all(strategy);
}

TEST_F(GpuStrategiesTest, GpusBesideACpu) {
  std::vector<std::string> devices = logical_gpus(2);
  devices.push_back("cpu:0");
  MirroredStrategy strategy({.devices = devices});
  expect_parity_of_all(strategy);
}

TEST_F(GpuStrategiesTest, SeveralWorkers) {
  const std::vector<std::string> devices = logical_gpus(2);
  test::ThreadCluster cluster(test::ThreadCluster::spec_of({{"worker", 2}}));
  test::expect_all_ok(cluster.run([&](test::ThreadCluster::Task& task) {
    MultiWorkerMirroredStrategy strategy(
        task.taking_part(MultiWorkerMirroredOptions{.devices = devices, .share_gpus = true}));
    expect_parity_of_all(strategy);
  }));
}

/// As all_reduce on CPUs, and by replicas that disagree.
void expect_sums_of_values(Strategy& strategy) {
  const int replicas = strategy.num_replicas_in_sync();
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kInt, at::kLong}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin, ReduceOp::kMax}) {
      std::vector<at::Tensor> here;
      for (int r = 0; r < replicas; ++r) here.push_back((at::randn({5, 3}) * 9).to(dtype));
      const PerReplica<at::Tensor> sums = strategy.run([&] {
        const ReplicaContext& context = *get_replica_context();
        const at::Tensor value = here[static_cast<size_t>(context.replica_id_in_sync_group())].to(
            context.device().physical);
        return context.all_reduce(op, value.t());  // not contiguous
      });
      const bool is_float = op == ReduceOp::kMean && !c10::isFloatingType(dtype);
      if (is_float) {
        for (at::Tensor& each : here) each = each.to(at::kDouble);
      }
      const at::Tensor expected = collective::reduce_in_order(here, op).t();
      for (const at::Tensor& sum : sums) {
        EXPECT_TRUE(at::equal(sum.cpu(), expected)) << dtype << ' ' << reduce_op_name(op);
      }
    }
  }
  try {
    strategy.run([] {
      const ReplicaContext& context = *get_replica_context();
      const at::Tensor value = at::ones({2 + context.replica_id_in_sync_group()},
                                        at::TensorOptions(context.device().physical));
      (void)context.all_reduce(ReduceOp::kSum, value);
    });
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("[2] on replica 0 and Float [3] on replica 1"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(GpuStrategiesTest, ValuesAreBroughtTogetherOnTheCards) {
  torch::manual_seed(3);
  MirroredStrategy one_card({.devices = logical_gpus(3)});
  expect_sums_of_values(one_card);
  if (test::num_gpus() < 2) return;
  set_logical_devices("gpu:0", 1);
  MirroredStrategy several({.devices = {"gpu:0", "gpu:1"}});
  expect_sums_of_values(several);
}

/// What a resolver says of the cluster, and that this task's GPUs are `gpus`.
class GivenGpus final : public cluster::ClusterResolver {
 public:
  GivenGpus(std::shared_ptr<const cluster::ClusterResolver> cluster, std::vector<std::string> gpus)
      : cluster_(std::move(cluster)), gpus_(std::move(gpus)) {}

 private:
  cluster::Resolution do_resolve() const override {
    cluster::Resolution resolution = cluster_->resolve();
    resolution.visible_gpus = gpus_;
    return resolution;
  }

  std::shared_ptr<const cluster::ClusterResolver> cluster_;
  std::vector<std::string> gpus_;
};

TEST_F(GpuStrategiesTest, AWorkerTakesTheGpusThatItsResolverNames) {
  if (test::num_gpus() < 2) GTEST_SKIP() << "this machine has one GPU";
  std::vector<int> used(2, -1);
  test::ThreadCluster cluster(test::ThreadCluster::spec_of({{"worker", 2}}));
  test::expect_all_ok(cluster.run([&](test::ThreadCluster::Task& task) {
    MultiWorkerMirroredOptions options = task.taking_part(MultiWorkerMirroredOptions{});
    // Not what they would be given by rank.
    options.cluster_resolver = std::make_shared<GivenGpus>(
        options.cluster_resolver, std::vector{std::to_string(1 - task.id.index)});
    MultiWorkerMirroredStrategy strategy(options);
    EXPECT_EQ(strategy.num_replicas_in_sync(), 2);
    (void)strategy.run([&] {
      const LogicalDevice& device = get_replica_context()->device();
      used[static_cast<size_t>(task.id.index)] =
          device.physical.is_cuda() ? device.physical.index() : -1;
      return 0;
    });
  }));
  EXPECT_EQ(used, (std::vector<int>{1, 0}));
}

TEST_F(GpuStrategiesTest, TwoWorkersOnOneGpuAreRefused) {
  const std::vector<std::string> devices = logical_gpus(2);  // of the first card
  test::ThreadCluster cluster(test::ThreadCluster::spec_of({{"worker", 2}}));
  for (const auto& [task, status] : cluster.run([&](test::ThreadCluster::Task& task) {
         const MultiWorkerMirroredStrategy strategy(task.taking_part(
             MultiWorkerMirroredOptions{.devices = {devices[static_cast<size_t>(task.id.index)]},
                                        .share_gpus = task.id.index == 0}));
       })) {
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument) << task.to_string();
    for (const char* part : {"/job:worker/task:0 (gpu:0 there) and /job:worker/task:1 (gpu:0 "
                             "there) use the same GPU, ",
                             "STRATA_SHARED_GPUS=allow in both"}) {
      EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    }
  }
}

TEST_F(GpuStrategiesTest, WorkersOfTwoKindsAreRefused) {
  const std::vector<std::string> devices{"cpu:0", logical_gpus(1)[0], "cpu:0"};
  test::ThreadCluster cluster(test::ThreadCluster::spec_of({{"worker", 3}}));
  for (const auto& [task, status] : cluster.run([&](test::ThreadCluster::Task& task) {
         const MultiWorkerMirroredStrategy strategy(task.taking_part(
             MultiWorkerMirroredOptions{.devices = {devices[static_cast<size_t>(task.id.index)]}}));
       })) {
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument) << task.to_string();
    EXPECT_NE(status.message().find("/job:worker/task:1 has GPUs and /job:worker/task:0 only CPUs"),
              std::string::npos)
        << status.message();
  }
}

}  // namespace
}  // namespace strata::parity
