#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "core/thread.h"
#include "strata/cluster/cluster_spec.h"

namespace strata::test {

/// A cluster of processes on this machine: one program, started once a task, with its TF_CONFIG.
/// What they print is collected; no process outlives the cluster.
class ProcessCluster {
 public:
  struct Exit {
    int code = -1;  ///< what it returned; -1 if a signal ended it
    int signal = 0;
    bool in_time = true;  ///< false: it was still running at the deadline, and was killed
    std::string output;   ///< stdout and stderr
  };

  /// Over 127.0.0.1. Nothing is started yet. @param jobs  Tasks of each job: {{"worker", 3}}.
  ProcessCluster(std::string program, std::vector<std::string> arguments,
                 const std::map<std::string, int>& jobs);
  ProcessCluster(std::string program, std::vector<std::string> arguments,
                 cluster::ClusterSpec spec);
  ~ProcessCluster();  // kills those that still run
  ProcessCluster(const ProcessCluster&) = delete;
  ProcessCluster& operator=(const ProcessCluster&) = delete;

  const cluster::ClusterSpec& spec() const { return spec_; }
  std::vector<cluster::TaskId> tasks() const;

  /// Starts every task, or one: again, after its end.
  void start();
  void start(const cluster::TaskId& task);
  /// More arguments for this task, from its next start on.
  void set_arguments(const cluster::TaskId& task, std::vector<std::string> arguments);
  void set_environment(const cluster::TaskId& task, const std::string& name,
                       const std::string& value);
  /// Words before the command, which become it by exec: {"nsenter", ...}.
  void set_prefix(const cluster::TaskId& task, std::vector<std::string> words);

  void kill(const cluster::TaskId& task, int signal = 9);

  /// Waits until the task has printed `text` (since its last start). @return false at the deadline,
  /// or when it has ended without.
  bool wait_for_output(const cluster::TaskId& task, const std::string& text,
                       std::chrono::milliseconds limit = std::chrono::seconds(60));
  std::string output(const cluster::TaskId& task) const;

  /// Waits for one to end, or all.
  Exit wait(const cluster::TaskId& task,
            std::chrono::milliseconds limit = std::chrono::seconds(60));
  std::map<cluster::TaskId, Exit> wait(std::chrono::milliseconds limit = std::chrono::seconds(60));

 private:
  struct Process {
    int pid = 0;
    bool ended = false;
    Exit exit;
    std::vector<std::string> prefix;
    std::vector<std::string> arguments;
    std::map<std::string, std::string> environment;
    Thread reader;
  };

  void read(Process& process, int from, int pid);
  void end(Process& process);

  const std::string program_;
  const std::vector<std::string> arguments_;
  cluster::ClusterSpec spec_;
  std::map<cluster::TaskId, Process> processes_;
  mutable Mutex mutex_;  // of what is in the processes
  ConditionVariable changed_;
};

/// Free ports of 127.0.0.1 that stay free for this process: they lie below the range from which the
/// system serves connections, and no other test gets them before it ends.
std::vector<int> free_ports(int count);

}  // namespace strata::test
