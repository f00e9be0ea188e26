// What one strategy saved another goes on from: one copy of the variables, mirrors of it, a copy
// for each replica.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "strata/checkpoint/checkpoint.h"
#include "strata/optim/optimizers.h"
#include "strata/strategies/central_storage_strategy.h"
#include "strata/strategies/mirrored_strategy.h"
#include "support/mirrors_on_cpu.h"
#include "support/replicas.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

using test::TempFolder;

struct Training {
  explicit Training(Strategy& strategy)
      : strategy(strategy),
        weight(strategy.scope([] {
          return Variable(at::ones({4, 3}, at::kDouble), {.name = "weight"});
        })),
        counter(strategy.scope([] {
          return Variable(at::ones({}, at::kDouble), {.name = "counter", .trainable = false});
        })),
        adam({weight}, {.learning_rate = 0.1}) {}

  void train(int steps) {
    for (int i = 0; i < steps; ++i) {
      strategy.run([&] {
        const double factor = 1 + get_replica_context()->replica_id_in_sync_group();
        adam.minimize((weight.value().square() * factor).sum());
      });
      counter.assign_add(1.0);
    }
  }
  Checkpoint::Objects objects() {
    return {{"weight", weight}, {"counter", counter}, {"adam", adam}};
  }

  Strategy& strategy;
  Variable weight, counter;
  optimizers::Adam adam;
};

TEST(CentralStorageCheckpointTest, OneGoesOnWhereAnotherStopped) {
  set_logical_devices("cpu", 4);
  MirroredStrategy mirrored({.devices = cpus(3)});
  CentralStorageStrategy central({.compute_devices = cpus(3)});
  MirrorsOnCpu mirrors(3);
  Training whole(mirrored);
  whole.train(9);
  const std::vector<Strategy*> all = {&mirrored, &central, &mirrors};
  for (Strategy* from : all) {
    for (Strategy* to : all) {
      SCOPED_TRACE(str_cat(from->name(), " to ", to->name()));
      const TempFolder folder;
      Training first(*from);
      first.train(5);
      const std::string path = Checkpoint(first.objects()).save(folder.path() + "/ckpt");
      Training second(*to);
      Checkpoint(second.objects()).restore(path).assert_consumed();
      second.train(4);
      for (int r = 0; r < 3; ++r) {
        const at::Tensor off = second.weight.on_replica(r) - whole.weight.value();
        EXPECT_LE(off.abs().max().item<double>(), 1e-12) << r;
        EXPECT_EQ(second.counter.on_replica(r).item<double>(), 10) << r;
      }
    }
  }
}

}  // namespace
}  // namespace strata
