// What the strategies say of where variables live, what updates them and where gradients are added.
#include "runtime/variable_placement.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>

#include "runtime/group_agreement.h"
#include "runtime/parameter_store.h"
#include "runtime/replica_group.h"
#include "strata/strategies/central_storage_strategy.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strategies/remote_placement.h"
#include "support/mirrors_on_cpu.h"
#include "support/replicas.h"

namespace strata {
namespace {

class VariablePlacementTest : public ::testing::Test {
 protected:
  void SetUp() override { set_logical_devices("cpu", 4); }
};

TEST_F(VariablePlacementTest, MirroredVariablesHaveACopyPerReplica) {
  for (const bool share_storage : {true, false}) {
    MirroredStrategy strategy({.devices = cpus(3), .replicas = {.share_storage = share_storage}});
    const ReplicaGroup& group = strategy.group();
    const VariablePlacement& placement = group.placement();
    EXPECT_TRUE(placement.has_copy_per_replica());
    EXPECT_EQ(placement.may_share_storage(group), share_storage);
    EXPECT_TRUE(placement.updates_together(group));
    EXPECT_EQ(placement.gradient_device(group), std::nullopt);
    EXPECT_EQ(placement.store(), nullptr);
    EXPECT_EQ(group.workers().count, 1);
    EXPECT_TRUE(strategy.is_chief());
  }
}

TEST_F(VariablePlacementTest, ReplicasReadTheCentralCopyWhereTheyCan) {
  CentralStorageStrategy strategy({.compute_devices = cpus(3)});
  const ReplicaGroup& group = strategy.group();
  const VariablePlacement& placement = group.placement();
  EXPECT_FALSE(placement.has_copy_per_replica());
  EXPECT_TRUE(placement.may_share_storage(group));
  EXPECT_TRUE(placement.updates_together(group));
  EXPECT_EQ(placement.gradient_device(group), std::nullopt);
  const std::vector<at::Tensor> tensors = {at::ones({2}), at::ones({2}), at::ones({2})};
  const VariablePlacement::Copies copies = placement.place(group, tensors);
  EXPECT_TRUE(copies.one_storage);
  EXPECT_FALSE(copies.central.defined());
  EXPECT_TRUE(tensors[2].is_alias_of(tensors[0]));
}

TEST_F(VariablePlacementTest, ElsewhereTheyReadMirrorsAndGradientsTravelToTheCopy) {
  MirrorsOnCpu strategy(2);
  const ReplicaGroup& group = strategy.group();
  const VariablePlacement& placement = group.placement();
  EXPECT_FALSE(placement.has_copy_per_replica());
  EXPECT_FALSE(placement.may_share_storage(group));
  EXPECT_FALSE(placement.updates_together(group));
  EXPECT_EQ(placement.gradient_device(group), at::Device(at::kCPU));
  const std::vector<at::Tensor> tensors = {at::ones({2}), at::ones({2})};
  const VariablePlacement::Copies copies = placement.place(group, tensors);
  EXPECT_FALSE(copies.one_storage);
  EXPECT_TRUE(copies.central.equal(tensors[0]));
  EXPECT_FALSE(copies.central.is_alias_of(tensors[0]));
}

TEST_F(VariablePlacementTest, ParameterServersUpdateForWorkersThatStepApart) {
  struct NoStore final : ParameterStore {
    int num_servers() const override { return 0; }
    std::unique_ptr<Table> make_table(const tensor::RuleOptions&, const std::vector<Entry>&,
                                      const at::Tensor&) override {
      return nullptr;
    }
  };
  const auto store = std::make_shared<NoStore>();
  const ReplicaGroup group(
      {.devices = {find_device("cpu:0"), find_device("cpu:1")},
       .placement = std::make_shared<detail::RemotePlacement>(store, Workers{3, 1})});
  const VariablePlacement& placement = group.placement();
  EXPECT_EQ(placement.store(), store.get());
  EXPECT_TRUE(placement.has_copy_per_replica());
  EXPECT_TRUE(placement.may_share_storage(group));
  EXPECT_EQ(group.workers().count, 3);
  EXPECT_EQ(group.workers().index, 1);
  EXPECT_FALSE(detail::is_chief(group));
}

}  // namespace
}  // namespace strata
