#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/thread.h"
#include "strata/cluster/resolvers.h"
#include "strata/cluster/roles.h"
#include "strata/cluster/server.h"
#include "wire/memory/memory_network.h"

namespace strata::test {

/// Long enough for whatever is to happen.
inline wire::Deadline soon() { return wire::Deadline::after(std::chrono::seconds(30)); }

inline void expect_all_ok(const std::map<cluster::TaskId, Status>& outcomes) {
  for (const auto& [task, status] : outcomes) {
    EXPECT_TRUE(status.ok()) << task.to_string() << ": " << status.message();
  }
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A cluster whose tasks are threads and whose network is memory: each task has a host of its own,
/// called `worker-1`, between which a test can cut or silence what it likes.
class ThreadCluster {
 public:
  struct Task {
    cluster::ClusterSpec spec;
    cluster::TaskId id;
    wire::MemoryNetwork& network;
    cluster::ServerOptions options;  ///< what `start` takes; a body may change it

    /// Meets the others. May be called again when the server before is gone: a task started anew.
    std::unique_ptr<cluster::Server> start() {
      return std::make_unique<cluster::Server>(spec, id, server_options());
    }

    /// Options of a MultiWorkerMirroredStrategy, or a DistributedDataParallel, that is this task.
    template <typename Options>
    Options taking_part(Options own) {
      own.cluster_resolver = std::make_shared<cluster::SimpleResolver>(
          spec, cluster::SimpleOptions{.task_type = id.job, .task_id = id.index});
      own.server = server_options();
      return own;
    }

   private:
    cluster::ServerOptions server_options() const {
      cluster::ServerOptions own = options;
      own.transport = network.transport(host_of(id));
      return own;
    }
  };
  using Body = std::function<void(Task&)>;

  explicit ThreadCluster(cluster::ClusterSpec spec, cluster::ServerOptions options = {},
                         const wire::MemoryNetworkOptions& network = {})
      : spec_(std::move(spec)), options_(std::move(options)), network_(network) {
    if (options_.start_timeout == cluster::ServerOptions().start_timeout) {
      options_.start_timeout = std::chrono::seconds(60);
    }
  }

  static std::string host_of(const cluster::TaskId& task) {
    return task.job + "-" + std::to_string(task.index);
  }
  /// `{"worker", 3}`: the spec of worker-0:1 to worker-2:1.
  static cluster::ClusterSpec spec_of(const std::map<std::string, int>& jobs) {
    std::map<std::string, std::vector<std::string>> addresses;
    for (const auto& [job, count] : jobs) {
      for (int i = 0; i < count; ++i) addresses[job].push_back(host_of({job, i}) + ":1");
    }
    return cluster::ClusterSpec(addresses);
  }

  wire::MemoryNetwork& network() { return network_; }
  const cluster::ClusterSpec& spec() const { return spec_; }

  /// From now on `host` is cut off from (or silent to) all others.
  void cut(const cluster::TaskId& task) {
    for_others(task, [&](const std::string& a, const std::string& b) { network_.cut(a, b); });
  }
  void silence(const cluster::TaskId& task) {
    for_others(task, [&](const std::string& a, const std::string& b) { network_.silence(a, b); });
  }

  /// Runs `body` as every task, each on a thread, and waits for all.
  /// @return what each threw.
  std::map<cluster::TaskId, Status> run(const Body& body) {
    std::map<cluster::TaskId, Status> outcomes;
    for (const std::string& job : spec_.jobs()) {
      for (const int index : spec_.task_indices(job)) outcomes[{job, index}] = Status();
    }
    std::vector<Thread> threads;
    for (auto& [id, outcome] : outcomes) {
      threads.emplace_back(id.short_name(), [&, id = id, &outcome = outcome] {
        try {
          Task task = {.spec = spec_, .id = id, .network = network_, .options = options_};
          body(task);
        } catch (...) {
          outcome = Status::from_current_exception();
        }
      });
    }
    for (Thread& thread : threads) thread.join();
    return outcomes;
  }
  /// The same for bodies that begin with a server and end with its shutdown.
  std::map<cluster::TaskId, Status> serve(const std::function<void(cluster::Server&)>& body) {
    return run([&](Task& task) {
      const auto server = task.start();
      body(*server);
      server->shutdown(wire::Deadline::after(std::chrono::seconds(60)));
    });
  }

 private:
  template <typename Do>
  void for_others(const cluster::TaskId& task, Do act) {
    for (const std::string& job : spec_.jobs()) {
      for (const int index : spec_.task_indices(job)) {
        const cluster::TaskId other = {job, index};
        if (other != task) act(host_of(task), host_of(other));
      }
    }
  }

  const cluster::ClusterSpec spec_;
  cluster::ServerOptions options_;
  wire::MemoryNetwork network_;
};

}  // namespace strata::test
