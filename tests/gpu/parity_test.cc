// Replicas on GPUs train as one CPU does, with every optimizer.

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "gpu/expect_parity.h"
#include "gpu/gpus.h"
#include "strata/strategies/one_device_strategy.h"

namespace strata::parity {
namespace {

class GpuParityTest : public test::GpuTest {
 protected:
  static void expect_parity_of_all(Strategy& strategy) {
    for (const Kind kind : kAllKinds) {
      std::vector<OptimizerCase> cases = optimizer_cases();
      if (kind == Kind::kMlp || kind == Kind::kSparseEmbedding) {
        std::ranges::move(more_optimizer_cases(), std::back_inserter(cases));
      }
      expect_parity(strategy, kind, cases);
    }
  }
};

TEST_F(GpuParityTest, OneGpu) {
  OneDeviceStrategy strategy({.device = "gpu:0"});
  expect_parity_of_all(strategy);
}

TEST_F(GpuParityTest, TwoLogicalGpus) {
  MirroredStrategy strategy({.devices = test::logical_gpus(2)});
  expect_parity_of_all(strategy);
}

TEST_F(GpuParityTest, FourLogicalGpus) {
  MirroredStrategy strategy({.devices = test::logical_gpus(4)});
  expect_parity_of_all(strategy);
}

TEST_F(GpuParityTest, TwoCards) {
  if (test::num_gpus() < 2) GTEST_SKIP() << "this machine has one GPU";
  MirroredStrategy strategy({.devices = {"gpu:0", "gpu:1"}});
  expect_parity_of_all(strategy);
}

}  // namespace
}  // namespace strata::parity
