#pragma once

#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/process_cluster.h"

namespace strata::test {

using Environment = std::map<std::string, std::string>;

/// The program of tests/multi_worker on emulated GPUs, with the fake NCCL between its processes.
class GpuJob : public ProcessCluster {
 public:
  GpuJob(int processes, const std::vector<std::string>& arguments, Environment environment = {})
      : ProcessCluster(STRATA_GPU_TRAINER, arguments, {{"worker", processes}}) {
    environment.emplace("STRATA_TEST_DEVICE", "gpu");
    environment.emplace("STRATA_EMULATED_GPUS", "4");
    environment.emplace("STRATA_LOG_LEVEL", "info");
    for (const cluster::TaskId& task : tasks()) {
      for (const auto& [name, value] : environment) set_environment(task, name, value);
    }
  }
};

/// The first line of an output that begins so.
inline std::string line_of(const std::string& output, const std::string& begin) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(begin)) return line;
  }
  return "";
}

}  // namespace strata::test
