#include "strata/strategies/central_storage_strategy.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>

#include "runtime/replica_group.h"
#include "strata/interop/torch_optimizer.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/replicate.h"
#include "support/mirrors_on_cpu.h"
#include "support/replicas.h"

namespace strata {
namespace {

using at::Tensor;

class CentralStorageTest : public ::testing::Test {
 protected:
  void SetUp() override { set_logical_devices("cpu", 4); }
};

size_t distinct_storages(const Variable& variable) {
  std::set<const void*> storages = {variable.value().const_data_ptr()};
  for (int r = 0; r < variable.group().num_local_replicas(); ++r)
    storages.insert(variable.on_replica(r).const_data_ptr());
  return storages.size();
}

TEST_F(CentralStorageTest, DevicesAreTensorFlows) {
  EXPECT_EQ(CentralStorageStrategy().num_replicas_in_sync(),
            static_cast<int>(list_logical_devices("CPU").size()));
  CentralStorageStrategy one({.compute_devices = {"cpu:2"}});
  EXPECT_EQ(one.parameter_device().name, find_device("cpu:2").name);
  CentralStorageStrategy two({.compute_devices = {"cpu:2", "cpu:3"}});
  EXPECT_EQ(two.num_replicas_in_sync(), 2);
  EXPECT_EQ(two.parameter_device().name, find_device("cpu:0").name);
  CentralStorageStrategy chosen({.compute_devices = cpus(2), .parameter_device = "cpu:1"});
  EXPECT_EQ(chosen.parameter_device().name, find_device("cpu:1").name);
}

TEST_F(CentralStorageTest, BadDevicesSaySo) {
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"central_storage_strategy", "twice"}, [] {
    CentralStorageStrategy strategy({.compute_devices = {"cpu:0", "cpu:0"}});
  }));
  EXPECT_TRUE(throws(ErrorCode::kNotFound, {"gpu:7"}, [] {
    CentralStorageStrategy strategy({.compute_devices = cpus(2), .parameter_device = "gpu:7"});
  }));
  EXPECT_TRUE(throws(ErrorCode::kInvalidArgument, {"no such word"}, [] {
    CentralStorageStrategy strategy({.parameter_device = "no such word"});
  }));
}

TEST_F(CentralStorageTest, EveryVariableIsOneStorage) {
  CentralStorageStrategy strategy({.compute_devices = cpus(3)});
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong}) {
    const Variable variable = strategy.scope([&] { return Variable(torch::ones({4, 4}, dtype)); });
    EXPECT_EQ(distinct_storages(variable), 1) << dtype;
  }
  const auto net = strategy.replicate([] {
    torch::nn::Sequential layers(torch::nn::Embedding(100, 4), torch::nn::Linear(4, 4));
    layers[0]->as<torch::nn::Embedding>()->weight.set_requires_grad(false);  // frozen
    return layers;
  });
  for (const Variable& parameter : net.parameters())
    EXPECT_EQ(distinct_storages(parameter), 1) << parameter.name();
  // Where MirroredStrategy shares what an optimizer trains, and that alone.
  MirroredStrategy mirrored({.devices = cpus(3)});
  EXPECT_EQ(distinct_storages(mirrored.scope([] { return Variable(torch::ones({4})); })), 3);
}

TEST_F(CentralStorageTest, WhatIsCoalescedReadStaysTheReplicasOwn) {
  CentralStorageStrategy strategy({.compute_devices = cpus(3)});
  Variable count = strategy.scope([] {
    return Variable(torch::zeros({}), {.synchronization = VariableSynchronization::kOnRead,
                                       .aggregation = VariableAggregation::kSum});
  });
  strategy.run([&] {
    count.assign_add(static_cast<double>(get_replica_context()->replica_id_in_sync_group()) + 1);
  });
  EXPECT_EQ(count.on_replica(2).item<double>(), 3);
  EXPECT_EQ(count.value().item<double>(), 6);
}

// Under both forms: replicas on the copy itself, and with mirrors.
template <typename Check>
void for_both(Check check) {
  CentralStorageStrategy shared({.compute_devices = cpus(3)});
  check(static_cast<Strategy&>(shared));
  MirrorsOnCpu mirrors(3);
  check(static_cast<Strategy&>(mirrors));
}

void expect_everywhere(const Variable& variable, double value) {
  EXPECT_EQ(variable.value().mean().item<double>(), value);
  for (int r = 0; r < 3; ++r)
    EXPECT_EQ(variable.on_replica(r).mean().item<double>(), value) << "replica " << r;
}

TEST_F(CentralStorageTest, WritesReachTheCopyAndAllMirrors) {
  for_both([](Strategy& strategy) {
    SCOPED_TRACE(strategy.name());
    Variable variable = strategy.scope([] {
      return Variable(torch::ones({2, 1}), {.aggregation = VariableAggregation::kSum});
    });
    variable.assign_add(8.0);
    expect_everywhere(variable, 9);
    strategy.run([&] { variable.assign_sub(torch::ones({2, 1})); });
    expect_everywhere(variable, 6);
    strategy.run([&] { variable.scatter_add(torch::tensor({0, 1}), torch::full({2, 1}, 2.0)); });
    expect_everywhere(variable, 12);
    const PerReplica<double> seen =
        strategy.run([&] { return variable.value().mean().item<double>(); });
    for (const double each : seen) EXPECT_EQ(each, 12);
  });
}

TEST_F(CentralStorageTest, GradientsAreToBeHadOutsideToo) {
  for_both([](Strategy& strategy) {
    SCOPED_TRACE(strategy.name());
    const Variable variable = strategy.scope([] { return Variable(torch::ones({2})); });
    const Tensor value = variable.value();
    (value * value).sum().backward();
    EXPECT_EQ(value.grad().sum().item<double>(), 4);
  });
}

TEST_F(CentralStorageTest, WritesWithoutAggregationRaise) {
  for_both([](Strategy& strategy) {
    SCOPED_TRACE(strategy.name());
    Variable variable = strategy.scope([] { return Variable(torch::ones({2})); });
    EXPECT_TRUE(throws(ErrorCode::kFailedPrecondition,
                       {"[variable] assign: 'Variable' has one copy for all replicas",
                        "give it an aggregation (kMean, kSum, kOnlyFirstReplica)"},
                       [&] { strategy.run([&] { variable.assign(torch::zeros({2})); }); }));
    expect_everywhere(variable, 1);
  });
  MirrorsOnCpu alone(1);
  Variable variable = alone.scope([] { return Variable(torch::ones({2})); });
  alone.run([&] { variable.assign_add(torch::ones({2})); });
  EXPECT_EQ(variable.value().mean().item<double>(), 2);
  EXPECT_EQ(variable.on_replica(0).mean().item<double>(), 2);
}

TEST_F(CentralStorageTest, WhatIsDoneToTheModuleOutsideReachesAllReplicas) {
  for_both([](Strategy& strategy) {
    SCOPED_TRACE(strategy.name());
    const auto net = strategy.replicate([] { return torch::nn::Linear(2, 2); });
    const auto seen = [&] {
      return strategy.run([&] { return net->weight.mean().template item<float>(); });
    };
    {
      const torch::NoGradGuard no_grad;
      net->weight.fill_(3);
    }
    for (const float each : seen()) EXPECT_EQ(each, 3);
    net->weight.set_data(torch::full({2, 2}, 5.0f));  // as torch::load does
    for (const float each : seen()) EXPECT_EQ(each, 5);
    EXPECT_EQ(net.variables()[0].value().mean().item<float>(), 5);

    optimizers::SGD sgd(net.variables(), {.learning_rate = 1});
    strategy.run([&] { sgd.minimize(net->weight.sum() / 3); });
    EXPECT_EQ(net->weight.mean().template item<float>(), 4);
    for (const float each : seen()) EXPECT_EQ(each, 4);
    net.variables()[0].assign(7.0);
    EXPECT_EQ(net->weight.mean().template item<float>(), 7);
    for (const float each : seen()) EXPECT_EQ(each, 7);
  });
}

TEST_F(CentralStorageTest, OneReplicaAwayFromItsVariablesTrains) {
  MirrorsOnCpu strategy(1);
  const auto net = strategy.replicate([] { return torch::nn::Linear(2, 2); });
  {
    const torch::NoGradGuard no_grad;
    net->weight.fill_(3);
  }
  optimizers::Adam adam(net.variables(), {.learning_rate = 0.5});
  strategy.run([&] { adam.minimize(net->weight.sum()); });
  EXPECT_NEAR(net->weight.mean().item<float>(), 2.5, 1e-5);
  EXPECT_NEAR(net.variables()[0].on_replica(0).mean().item<float>(), 2.5, 1e-5);
  EXPECT_EQ(distinct_storages(net.variables()[0]), 2);
}

TEST_F(CentralStorageTest, LibtorchsOptimizersNeedTheVariablesBesideThem) {
  MirrorsOnCpu mirrors(2);
  const auto net = mirrors.replicate([] { return torch::nn::Linear(2, 2); });
  EXPECT_TRUE(throws(ErrorCode::kUnimplemented, {"[torch_optimizer] build", "only copy on"}, [&] {
    interop::TorchOptimizer<torch::optim::SGD> sgd(net.variables(), torch::optim::SGDOptions(0.1));
  }));
  CentralStorageStrategy central({.compute_devices = cpus(2)});
  const auto other = central.replicate([] { return torch::nn::Linear(2, 2); });
  interop::TorchOptimizer<torch::optim::SGD> sgd(other.variables(), torch::optim::SGDOptions(0.5));
  const float before = other->weight.mean().item<float>();
  central.run([&] { sgd.minimize(other->weight.sum() / 2); });
  EXPECT_NEAR(other->weight.mean().item<float>(), before - 0.5, 1e-5);
}

}  // namespace
}  // namespace strata
