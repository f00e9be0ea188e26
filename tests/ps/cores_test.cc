// A server of the worker's host, on the worker's core and on another.
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <functional>
#include <memory>

#include "core/current_core.h"
#include "core/thread.h"
#include "ps/ps_cluster.h"
#include "ps/tables/flat_table.h"
#include "tensor/update_rule.h"

namespace strata::ps {
namespace {

using strata::detail::current_core;
using test::PsCluster;

cpu_set_t allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  return set;
}

void allow(const cpu_set_t& set) { ASSERT_EQ(::sched_setaffinity(0, sizeof set, &set), 0); }

cpu_set_t only(uint32_t core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core - 1, &set);
  return set;
}

/// Runs `body` on a thread that may run on these cores alone, as may all that it starts.
void run_on(const cpu_set_t& cores, const std::function<void()>& body) {
  Thread thread("on-cores", [&] {
    allow(cores);
    body();
  });
  thread.join();
}

struct Outcome {
  at::Tensor values;
  bool reads_on_this_core = false;
};

/// Values after a few steps of a worker on the one core and a server on the other.
Outcome train(uint32_t worker_core, uint32_t server_core, bool shared) {
  constexpr int64_t kElements = 100'000;
  Outcome outcome;
  std::unique_ptr<PsCluster> cluster;
  run_on(only(server_core), [&] { cluster = std::make_unique<PsCluster>(1, 1); });
  run_on(only(worker_core), [&] {
    PsCluster::expect_ok(cluster->run([&](Client& client, int) {
      const auto make = [&] {
        return shared ? client.make_buffer(kElements) : at::zeros({kElements});
      };
      at::Generator generator = at::detail::createCPUGenerator(5);
      at::Tensor values = make().normal_(0, 1, generator);
      at::Tensor gradients = make();
      const auto table = client.create_flat({.name = "weights",
                                             .rule = tensor::AdamRule{},
                                             .parts = {{0, kElements, 0}},
                                             .no_weight_decay = {{30'000, 70'001, 0}}},
                                            values, true);
      EXPECT_FALSE(table->reads_on_this_core());
      for (int step = 0; step < 3; ++step) {
        gradients.normal_(0, 1, generator);
        table->push_pull(gradients, values, {.learning_rate = 0.1, .weight_decay = 0.01});
      }
      outcome = {values.clone(), table->reads_on_this_core()};
    }));
  });
  return outcome;
}

TEST(CoresTest, StoresPastTheCachesAndIntoThemHaveTheSameBits) {
  const cpu_set_t all = allowed();
  const uint32_t here = current_core();
  const Outcome wire = train(here, here, /*shared=*/false);
  EXPECT_FALSE(wire.reads_on_this_core);
  const Outcome cached = train(here, here, /*shared=*/true);
  EXPECT_TRUE(cached.reads_on_this_core);
  EXPECT_TRUE(cached.values.equal(wire.values));
  for (uint32_t core = 1; core <= CPU_SETSIZE; ++core) {
    if (core == here || !CPU_ISSET(core - 1, &all)) continue;
    const Outcome apart = train(here, core, /*shared=*/true);
    EXPECT_FALSE(apart.reads_on_this_core);
    EXPECT_TRUE(apart.values.equal(wire.values));
    break;
  }
}

}  // namespace
}  // namespace strata::ps
