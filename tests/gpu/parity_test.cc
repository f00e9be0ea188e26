// Replicas on GPUs train as one CPU does.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>

#include "gpu/gpus.h"
#include "parity/models.h"
#include "strata/strategies/one_device_strategy.h"

namespace strata::parity {
namespace {

constexpr int kSteps = 12;
const std::vector<int64_t> kBatchSizes = {13, 7, 16, 3, 11, 5};

class GpuParityTest : public test::GpuTest {
 protected:
  /// Every optimizer, in float64.
  static void expect_parity(Strategy& strategy, Kind kind) {
    const Batches batches = make_batches(kind, at::kDouble, kSteps, kBatchSizes);
    std::vector<OptimizerCase> cases = optimizer_cases();
    if (kind == Kind::kMlp || kind == Kind::kSparseEmbedding) {
      std::ranges::move(more_optimizer_cases(), std::back_inserter(cases));
    }
    for (const OptimizerCase& each : cases) {
      SCOPED_TRACE(str_cat(name_of(kind), ", ", each.name, ", ", strategy.num_replicas_in_sync(),
                           " replicas"));
      const Outcome cpu = train_on_one_device(kind, at::kDouble, batches, each, Form::kAverageLoss);
      const Outcome gpu =
          train_under(strategy, kind, at::kDouble, batches, each, Form::kAverageLoss);
      EXPECT_LE(difference(gpu.weights, cpu.weights), 1e-7);
      EXPECT_LE(difference(gpu.slots, cpu.slots), 1e-7);
      EXPECT_LE(difference(gpu.buffers, cpu.buffers), 1e-7);
    }
  }
};

TEST_F(GpuParityTest, OneGpu) {
  OneDeviceStrategy strategy({.device = "gpu:0"});
  for (const Kind kind : kAllKinds) expect_parity(strategy, kind);
}

TEST_F(GpuParityTest, TwoLogicalGpus) {
  MirroredStrategy strategy({.devices = test::logical_gpus(2)});
  for (const Kind kind : kAllKinds) expect_parity(strategy, kind);
}

TEST_F(GpuParityTest, FourLogicalGpus) {
  MirroredStrategy strategy({.devices = test::logical_gpus(4)});
  for (const Kind kind : kAllKinds) expect_parity(strategy, kind);
}

TEST_F(GpuParityTest, TwoCards) {
  if (test::num_gpus() < 2) GTEST_SKIP() << "this machine has one GPU";
  MirroredStrategy strategy({.devices = {"gpu:0", "gpu:1"}});
  for (const Kind kind : kAllKinds) expect_parity(strategy, kind);
}

}  // namespace
}  // namespace strata::parity
