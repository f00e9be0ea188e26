// Where the parameters that an optimizer trains lie.
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "runtime/replica_group.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/central_storage_strategy.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/replicas.h"

namespace strata::parity {
namespace {

constexpr int64_t kElements = (2 << 20) / sizeof(float);  // of the largest that replicas copy

/// All replicas' tensors of all variables.
template <typename Predicate>
bool all(const std::vector<Variable>& variables, Predicate predicate) {
  for (const Variable& variable : variables) {
    for (int r = 1; r < variable.group().num_local_replicas(); ++r) {
      if (!predicate(variable.on_replica(0), variable.on_replica(r))) return false;
    }
  }
  return true;
}

bool are_one(const std::vector<Variable>& variables) {
  return all(variables, [](const at::Tensor& a, const at::Tensor& b) {
    return a.const_data_ptr() == b.const_data_ptr();
  });
}

bool are_copies(const std::vector<Variable>& variables) {
  return all(variables, [](const at::Tensor& a, const at::Tensor& b) {
    return a.const_data_ptr() != b.const_data_ptr() && a.equal(b);
  });
}

/// Variables with so many elements, trained for two steps.
std::vector<Variable> trained(Strategy& strategy, const std::vector<int64_t>& sizes) {
  const auto variables = strategy.scope([&] {
    std::vector<Variable> made;
    for (const int64_t size : sizes) made.emplace_back(at::ones({size}));
    return made;
  });
  optimizers::Adam adam(variables, {.learning_rate = 0.1});
  for (int step = 0; step < 2; ++step) {
    strategy.run([&] {
      at::Tensor loss = variables[0].value().square().sum();
      for (size_t i = 1; i < variables.size(); ++i) loss = loss + variables[i].value().sum();
      adam.minimize(loss);
    });
  }
  return variables;
}

std::vector<Variable> trained(const std::vector<int64_t>& sizes,
                              std::optional<bool> share_storage = {}) {
  set_logical_devices("cpu", 3);
  MirroredStrategy strategy(
      {.devices = cpus(3), .replicas = {.threads_per_replica = 1, .share_storage = share_storage}});
  return trained(strategy, sizes);
}

TEST(StorageTest, SmallParametersAreCopiedAndLargeOnesShared) {
  EXPECT_TRUE(are_copies(trained({kElements})));
  EXPECT_TRUE(are_one(trained({kElements + 1})));
}

TEST(StorageTest, AllParametersOfTheOptimizerCount) {
  EXPECT_TRUE(are_copies(trained({kElements / 2, kElements / 2})));
  EXPECT_TRUE(are_one(trained({kElements / 2, 1, kElements / 2})));
}

TEST(StorageTest, WhatTheUserSaysHolds) {
  EXPECT_TRUE(are_one(trained({3}, true)));
  EXPECT_TRUE(are_copies(trained({kElements + 1}, false)));
}

// They are written past the caches.
TEST(StorageTest, CopiesOfVeryLargeParametersAreEqualToo) {
  const Variable variable = trained({9 << 20}, false)[0];
  EXPECT_TRUE(are_copies({variable}));
  EXPECT_LT(variable.on_replica(2).max().item<float>(), 1);
}

TEST(StorageTest, CentralStorageIsOne) {
  set_logical_devices("cpu", 3);
  CentralStorageStrategy strategy(
      {.compute_devices = cpus(3), .replicas = {.threads_per_replica = 1}});
  EXPECT_TRUE(are_one(trained(strategy, {3})));
}

}  // namespace
}  // namespace strata::parity
