#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/str_cat.h"
#include "support/process_cluster.h"

namespace strata::test {

/// `strata-server` processes on this machine, each with an address of its own.
class StandaloneServers {
 public:
  explicit StandaloneServers(int count, std::vector<std::string> arguments = {},
                             int parameter_servers = 0)
      : cluster_(STRATA_SERVER, std::move(arguments), jobs(count, parameter_servers)) {
    for (const cluster::TaskId& task : cluster_.tasks()) {
      cluster_.set_arguments(task, {"--task", str_cat(task.job, ":", task.index)});
    }
    cluster_.start();
    for (int i = 0; i < count; ++i) addresses_.push_back(address_of(task(i)));
    for (int i = 0; i < parameter_servers; ++i) {
      parameter_servers_.push_back(address_of({"ps", i}));
    }
  }

  const std::vector<std::string>& addresses() const { return addresses_; }
  const std::vector<std::string>& parameter_servers() const { return parameter_servers_; }
  ProcessCluster& processes() { return cluster_; }
  static cluster::TaskId task(int i) { return {"worker", i}; }

 private:
  static std::map<std::string, int> jobs(int workers, int parameter_servers) {
    std::map<std::string, int> jobs = {{"worker", workers}};
    if (parameter_servers > 0) jobs["ps"] = parameter_servers;
    return jobs;
  }

  /// As the server says it when it listens.
  std::string address_of(const cluster::TaskId& task) {
    EXPECT_TRUE(cluster_.wait_for_output(task, "\n")) << cluster_.output(task);
    const std::string line = cluster_.output(task);
    const size_t at = line.find(" at ");
    EXPECT_NE(at, std::string::npos) << line;
    if (at == std::string::npos) return {};
    return line.substr(at + 4, line.find('\n', at) - at - 4);
  }

  ProcessCluster cluster_;
  std::vector<std::string> addresses_;
  std::vector<std::string> parameter_servers_;
};

}  // namespace strata::test
