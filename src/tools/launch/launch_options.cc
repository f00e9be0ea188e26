#include "tools/launch/launch_options.h"

#include <string_view>

#include "strata/cluster/roles.h"

namespace strata::tools {

std::vector<cluster::TaskId> LaunchOptions::tasks() const {
  std::vector<cluster::TaskId> tasks;
  const auto add = [&](std::string_view job, int count) {
    for (int i = 0; i < count; ++i) tasks.push_back({.job = std::string(job), .index = i});
  };
  add(cluster::kChief, chief ? 1 : 0);
  add(cluster::kWorker, workers - (chief ? 1 : 0));
  add(cluster::kPs, ps);
  add(cluster::kEvaluator, evaluator ? 1 : 0);
  return tasks;
}

}  // namespace strata::tools
