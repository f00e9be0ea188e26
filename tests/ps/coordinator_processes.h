#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "support/process_cluster.h"

namespace strata::test {

// A coordinator and its workers as processes: coordinator_task_main.cc.

inline const cluster::TaskId kChief = {"chief", 0};

inline cluster::TaskId worker(int index) { return {"worker", index}; }

inline ProcessCluster coordinator_processes(std::vector<std::string> arguments, int workers) {
  return {STRATA_COORDINATOR_TASK, std::move(arguments), {{"chief", 1}, {"worker", workers}}};
}

inline void set_all(ProcessCluster& cluster, const std::string& name, const std::string& value) {
  for (const cluster::TaskId& task : cluster.tasks()) cluster.set_environment(task, name, value);
}

inline void expect_done(const ProcessCluster::Exit& exit, const cluster::TaskId& task) {
  EXPECT_TRUE(exit.in_time) << task.to_string() << "\n" << exit.output;
  EXPECT_EQ(exit.code, 0) << task.to_string() << "\n" << exit.output;
  EXPECT_NE(exit.output.find("done"), std::string::npos) << exit.output;
}

}  // namespace strata::test
