#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "strata/core/str_cat.h"
#include "support/process_cluster.h"

namespace strata::test {

/// `strata-server` processes on this machine, each with an address of its own.
class StandaloneServers {
 public:
  explicit StandaloneServers(int count, std::vector<std::string> arguments = {})
      : cluster_(STRATA_SERVER, arguments, {{"worker", count}}) {
    for (int i = 0; i < count; ++i) {
      cluster_.set_arguments(task(i), {"--task", str_cat("worker:", i)});
    }
    cluster_.start();
    for (int i = 0; i < count; ++i) {
      EXPECT_TRUE(cluster_.wait_for_output(task(i), "\n")) << cluster_.output(task(i));
      const std::string line = cluster_.output(task(i));
      const size_t at = line.find(" at ");
      EXPECT_NE(at, std::string::npos) << line;
      if (at == std::string::npos) continue;
      addresses_.push_back(line.substr(at + 4, line.find('\n', at) - at - 4));
    }
  }

  const std::vector<std::string>& addresses() const { return addresses_; }
  ProcessCluster& processes() { return cluster_; }
  static cluster::TaskId task(int i) { return {"worker", i}; }

 private:
  ProcessCluster cluster_;
  std::vector<std::string> addresses_;
};

}  // namespace strata::test
