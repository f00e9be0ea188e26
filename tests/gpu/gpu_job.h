#pragma once

#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/str_cat.h"
#include "support/process_cluster.h"

namespace strata::test {

using Environment = std::map<std::string, std::string>;

/// A program on emulated GPUs, that of tests/multi_worker or another, with the fake NCCL between its processes.
class GpuJob : public ProcessCluster {
 public:
  GpuJob(int processes, const std::vector<std::string>& arguments, Environment environment = {},
         const std::string& program = STRATA_GPU_TRAINER)
      : ProcessCluster(program, arguments, {{"worker", processes}}) {
    environment.emplace("STRATA_TEST_DEVICE", "gpu");
    environment.emplace("STRATA_EMULATED_GPUS", std::to_string(kCards));
    environment.emplace("STRATA_LOG_LEVEL", "info");
    for (const cluster::TaskId& task : tasks()) {
      for (const auto& [name, value] : environment) set_environment(task, name, value);
      // Each process has cards of its own, as their names say.
      std::string cards;
      for (int i = 0; i < kCards; ++i) cards += str_cat(i == 0 ? "" : ",", task.index * kCards + i);
      if (!environment.contains("CUDA_VISIBLE_DEVICES")) {
        set_environment(task, "CUDA_VISIBLE_DEVICES", cards);
      }
    }
  }

 private:
  static constexpr int kCards = 4;
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
