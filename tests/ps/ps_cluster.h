#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/thread.h"
#include "ps/tables/client.h"
#include "ps/tables/parameter_server.h"
#include "strata/cluster/cluster_spec.h"
#include "wire/memory/memory_network.h"

namespace strata::test {

/// Parameter servers and workers in this process, on hosts "ps-0" and "worker-1" of a network in
/// memory, or over sockets of 127.0.0.1.
class PsCluster {
 public:
  struct Options {
    std::chrono::nanoseconds liveness = std::chrono::seconds(10);
    std::chrono::nanoseconds timeout = std::chrono::seconds(60);
    wire::MemoryNetworkOptions network = {};
  };

  PsCluster(int servers, int workers) : PsCluster(servers, workers, Options()) {}
  PsCluster(int servers, int workers, const Options& options)
      : options_(options), network_(options.network), spec_(spec_of(servers, workers)) {
    for (int i = 0; i < servers; ++i) start_server(i);
  }

  wire::MemoryNetwork& network() { return network_; }
  const cluster::ClusterSpec& spec() const { return spec_; }
  ps::ParameterServer& server(int index) { return *servers_[static_cast<size_t>(index)]; }

  void start_server(int index) {
    servers_.resize(std::max(servers_.size(), static_cast<size_t>(index) + 1));
    servers_[static_cast<size_t>(index)] = std::make_unique<ps::ParameterServer>(
        spec_, cluster::TaskId{"ps", index},
        ps::ParameterServerOptions{.server = options_of("ps-" + std::to_string(index))});
  }
  void end_server(int index) { servers_[static_cast<size_t>(index)].reset(); }

  std::unique_ptr<ps::Client> client(int worker) {
    return std::make_unique<ps::Client>(
        spec_, cluster::TaskId{"worker", worker},
        ps::ClientOptions{.server = options_of("worker-" + std::to_string(worker)),
                          .timeout = options_.timeout});
  }

  /// Runs `body` as every worker, each on a thread; each leaves at its end.
  /// @return what each threw.
  std::vector<Status> run(const std::function<void(ps::Client&, int worker)>& body) {
    return run_tasks([&](const cluster::TaskId& task, cluster::ServerOptions) {
      const auto own = client(task.index);
      body(*own, task.index);
      own->leave(/*job_done=*/task.index == 0);
    });
  }

  /// The same for bodies that make a client, or a strategy, themselves.
  std::vector<Status> run_tasks(
      const std::function<void(const cluster::TaskId&, cluster::ServerOptions)>& body) {
    std::vector<Status> outcomes(static_cast<size_t>(spec_.num_tasks("worker")));
    std::vector<Thread> threads;
    for (int worker = 0; worker < spec_.num_tasks("worker"); ++worker) {
      threads.emplace_back("worker", [&, worker] {
        try {
          body({"worker", worker}, options_of("worker-" + std::to_string(worker)));
        } catch (...) {
          outcomes[static_cast<size_t>(worker)] = Status::from_current_exception();
        }
      });
    }
    for (Thread& thread : threads) thread.join();
    return outcomes;
  }

  static void expect_ok(const std::vector<Status>& outcomes) {
    for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.ok()) << outcome.message();
  }

 private:
  static cluster::ClusterSpec spec_of(int servers, int workers) {
    std::map<std::string, std::vector<std::string>> jobs;
    for (int i = 0; i < servers; ++i) jobs["ps"].push_back("ps-" + std::to_string(i) + ":1");
    for (int i = 0; i < workers; ++i) {
      jobs["worker"].push_back("worker-" + std::to_string(i) + ":1");
    }
    return cluster::ClusterSpec(jobs);
  }

  cluster::ServerOptions options_of(const std::string& host) {
    return {.start_timeout = std::chrono::seconds(30),
            .liveness = options_.liveness,
            .transport = network_.transport(host)};
  }

  Options options_;
  wire::MemoryNetwork network_;
  cluster::ClusterSpec spec_;
  std::vector<std::unique_ptr<ps::ParameterServer>> servers_;
};

}  // namespace strata::test
