#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/thread.h"
#include "ps/coordinator/coordinator.h"
#include "strata/ps/worker_server.h"
#include "support/thread_cluster.h"
#include "wire/memory/memory_network.h"

namespace strata::test {

/// A gate that functions of a test wait at, and the test waits for them. Threads: any.
class Gate {
 public:
  /// Waits until it is open; looks at `stop`. @return false: stopped, or nobody opened it.
  bool pass(const std::stop_token& stop = {}) {
    std::unique_lock lock(mutex_);
    ++came_;
    changed_.notify_all();
    return changed_.wait_for(lock, stop, std::chrono::seconds(60), [&] { return open_; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    open_ = false;
  }
  /// Waits until so many have come. @return false: they have not.
  bool wait_for(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return came_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  int came_ = 0;
  bool open_ = false;
};

/// A coordinator's cluster within this process, over memory: workers are threads that can be
/// started, ended and cut off; `/job:chief/task:0` coordinates.
class WorkerThreads {
 public:
  explicit WorkerThreads(int workers, const wire::MemoryNetworkOptions& network = {})
      : network_(network),
        spec_(ThreadCluster::spec_of({{"chief", 1}, {"worker", workers}})),
        workers_(static_cast<size_t>(workers)) {
    server_.liveness = std::chrono::seconds(10);
  }
  ~WorkerThreads() {
    for (size_t i = 0; i < workers_.size(); ++i) stop(static_cast<int>(i));
  }

  ps::FunctionRegistry& registry() { return registry_; }
  wire::MemoryNetwork& network() { return network_; }
  const cluster::ClusterSpec& spec() const { return spec_; }
  void set_liveness(std::chrono::nanoseconds liveness) { server_.liveness = liveness; }

  void start(ps::WorkerOptions options = {}) {
    for (size_t i = 0; i < workers_.size(); ++i) start(static_cast<int>(i), options);
  }
  void start(int index, ps::WorkerOptions options = {}) { start(index, registry_, options); }
  /// With a registry of its own.
  void start(int index, const ps::FunctionRegistry& registry, ps::WorkerOptions options = {}) {
    Worker& worker = workers_[static_cast<size_t>(index)];
    const cluster::TaskId task = {"worker", index};
    options.server.liveness = server_.liveness;
    options.server.transport = network_.transport(ThreadCluster::host_of(task));
    worker.server = std::make_unique<ps::WorkerServer>(spec_, task, registry, options);
    worker.outcome = Status();
    worker.thread = Thread(task.short_name(), [&worker](std::stop_token stop) {
      try {
        worker.server->join(stop);
      } catch (...) {
        worker.outcome = Status::from_current_exception();
      }
    });
  }
  /// Ends it as if it had crashed, but for the functions that run.
  void stop(int index) {
    Worker& worker = workers_[static_cast<size_t>(index)];
    worker.thread = Thread();
    worker.server.reset();
  }
  /// Waits until its `join` has ended. @return what it threw.
  Status wait(int index) {
    Worker& worker = workers_[static_cast<size_t>(index)];
    if (worker.thread.joinable()) worker.thread.join();
    worker.thread = Thread();
    return worker.outcome;
  }
  uint64_t calls(int index) const { return workers_[static_cast<size_t>(index)].server->calls(); }

  std::unique_ptr<ps::Coordinator> coordinator(ps::CoordinatorOptions options = {},
                                               const std::string& host = "chief-0") {
    options.server.liveness = server_.liveness;
    options.server.transport = network_.transport(host);
    return std::make_unique<ps::Coordinator>(spec_, cluster::TaskId{"chief", 0}, registry_,
                                             std::move(options));
  }

  void cut(int index) { network_.cut("chief-0", host(index)); }
  void silence(int index) { network_.silence("chief-0", host(index)); }
  void heal(int index) { network_.heal("chief-0", host(index)); }
  static std::string host(int index) { return ThreadCluster::host_of({"worker", index}); }

 private:
  struct Worker {
    std::unique_ptr<ps::WorkerServer> server;
    Status outcome;
    Thread thread;
  };

  wire::MemoryNetwork network_;
  const cluster::ClusterSpec spec_;
  cluster::ServerOptions server_;
  ps::FunctionRegistry registry_;
  std::vector<Worker> workers_;
};

}  // namespace strata::test
