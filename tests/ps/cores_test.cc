// Where a server works on a push of a worker of its host: on the worker's core, if that is left to
// it, and with which stores.
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <functional>
#include <latch>
#include <memory>
#include <vector>

#include "core/current_core.h"
#include "core/thread.h"
#include "ps/ps_cluster.h"
#include "ps/tables/core_visit.h"
#include "ps/tables/flat_table.h"
#include "strata/tensor/update_rule.h"

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

TEST(CoreVisitTest, TheThreadIsThereAndMayGoBackEverywhere) {
  const cpu_set_t before = allowed();
  for (uint32_t core = 1; core <= CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core - 1, &before)) continue;
    {
      const CoreVisit visit(core);
      EXPECT_EQ(current_core(), core);
    }
    const cpu_set_t after = allowed();
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  }
}

TEST(CoreVisitTest, ACoreThatIsNotItsOwnIsNotVisited) {
  const cpu_set_t all = allowed();
  const uint32_t here = current_core();
  run_on(only(here), [&] {
    EXPECT_EQ(allowed_cores(), 1);
    for (uint32_t core = 0; core <= CPU_SETSIZE + 1; ++core) {
      const CoreVisit visit(core);
      const cpu_set_t set = allowed();
      const cpu_set_t own = only(here);
      ASSERT_TRUE(CPU_EQUAL(&set, &own)) << core;
    }
  });
  const cpu_set_t after = allowed();
  EXPECT_TRUE(CPU_EQUAL(&all, &after));
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

/// Two cores at most, and a worker on each: the server visits the one that waits.
TEST(CoresTest, AServerVisitsWorkersThatTakeAllOfItsCores) {
  const cpu_set_t all = allowed();
  std::vector<uint32_t> cores;
  for (uint32_t core = 1; core <= CPU_SETSIZE && cores.size() < 2; ++core) {
    if (CPU_ISSET(core - 1, &all)) cores.push_back(core);
  }
  const int workers = static_cast<int>(cores.size());
  cpu_set_t these;
  CPU_ZERO(&these);
  for (const uint32_t core : cores) CPU_SET(core - 1, &these);
  std::unique_ptr<PsCluster> cluster;
  run_on(these, [&] { cluster = std::make_unique<PsCluster>(1, workers); });
  std::latch mapped(workers);
  std::latch done(workers);
  PsCluster::expect_ok(cluster->run([&](Client& client, int worker) {
    allow(only(cores[static_cast<size_t>(worker)]));
    at::Tensor values = client.make_buffer(100'000);
    at::Tensor gradients = client.make_buffer(100'000).fill_(1);
    const auto table =
        client.create_flat({.name = "weights", .parts = {{0, 100'000, 0}}}, values, worker == 0);
    table->push_pull(gradients, values, {.learning_rate = 1});  // the server maps the memory
    mapped.arrive_and_wait();
    for (int step = 0; step < 10; ++step) {
      table->push_pull(gradients, values, {.learning_rate = 1});
      EXPECT_TRUE(table->reads_on_this_core()) << step;
    }
    done.arrive_and_wait();  // a worker that has left takes no core
  }));
}

}  // namespace
}  // namespace strata::ps
