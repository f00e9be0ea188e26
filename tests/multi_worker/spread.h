#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "strata/runtime/devices.h"
#include "strata/strategies/mirrored_strategy.h"
#include "strata/strategies/multi_worker_mirrored_strategy.h"
#include "support/replicas.h"
#include "support/thread_cluster.h"

namespace strata::test {

constexpr int kReplicas = 8;      // at most
using Spread = std::vector<int>;  // replicas of each worker
using Body = std::function<void(Strategy& strategy, int worker)>;

/// `body` in one process, or in as many as there are numbers: threads on a network in memory.
/// @param options  Of several processes: how they communicate and share.
/// @return what each threw.
inline std::vector<Status> run(const Spread& replicas, const Body& body,
                               const MultiWorkerMirroredOptions& options = {}) {
  set_logical_devices("cpu", kReplicas);
  if (replicas.size() == 1) {
    MirroredStrategy strategy({.devices = cpus(replicas[0]),
                               .seed = 5,
                               .replicas = {.permits = 2, .threads_per_replica = 1}});
    try {
      body(strategy, 0);
    } catch (...) {
      return {Status::from_current_exception()};
    }
    return {Status()};
  }
  ThreadCluster cluster(ThreadCluster::spec_of({{"worker", static_cast<int>(replicas.size())}}));
  std::vector<Status> outcomes;
  for (const auto& [task, status] : cluster.run([&](ThreadCluster::Task& task) {
         MultiWorkerMirroredStrategy strategy(task.taking_part(MultiWorkerMirroredOptions{
             .devices = cpus(replicas[static_cast<size_t>(task.id.index)]),
             .seed = 5,
             .communication_options = options.communication_options,
             .shard_optimizer_state = options.shard_optimizer_state,
             .replicas = {.permits = 1,
                          .threads_per_replica = 1,
                          .share_storage = options.replicas.share_storage}}));
         body(strategy, task.id.index);
       })) {
    outcomes.push_back(status);
  }
  return outcomes;
}

inline void run_well(const Spread& replicas, const Body& body,
                     const MultiWorkerMirroredOptions& options = {}) {
  for (const Status& status : run(replicas, body, options)) {
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

}  // namespace strata::test
