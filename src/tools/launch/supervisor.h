#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/launch/child_process.h"
#include "tools/launch/orphan_reaper.h"
#include "tools/launch/task_output.h"

namespace strata::tools {

struct SupervisedTask {
  std::string name;  ///< "worker:0"
  ChildSpec child;
  /// Where it runs; empty: here. Elsewhere `child` is what starts it there.
  std::string host = {};
  /// Serves or watches the others (ps, evaluator): it may have no end of its own.
  bool serves = false;
  /// The others end before it, and what a job leaves behind is its.
  bool leads = false;
};

struct SupervisorOptions {
  /// From being asked to end (SIGTERM) to being killed.
  std::chrono::milliseconds grace = std::chrono::seconds(10);
  /// How long those that serve may go on after all others have ended well.
  std::chrono::milliseconds linger = std::chrono::seconds(30);
  /// How often what failed is started again: all tasks, or the one alone if `elastic`. When others
  /// have ended well, it is too late for one alone: they do without it, but not without the leader.
  int restarts = 0;
  bool elastic = false;
  /// The exit code of who was asked to stop and has saved its state: started again without
  /// counting, unless it was up for less than `shortest_life`, since it might never get anywhere.
  int preempted_code = 42;
  std::chrono::milliseconds shortest_life = std::chrono::seconds(1);
  /// After a failure, how long others may end by themselves, to tell the cause from what followed.
  std::chrono::milliseconds settle = std::chrono::milliseconds(200);
  /// And how long one may that the failed one's last words name: it is on its way to its end.
  std::chrono::milliseconds settle_named = std::chrono::seconds(2);
  /// How long another host may hear nothing from here before it ends its tasks: it gets four
  /// heartbeats in that time.
  std::chrono::milliseconds host_timeout = std::chrono::seconds(20);
  /// What a failure on another host may mean, from its last lines; empty: nothing is known.
  std::string (*explain)(const SupervisedTask& task, const ChildEnd& end,
                         const std::vector<std::string>& last_lines) = nullptr;
};

/// Runs processes as one: the first failure ends all, and in every case no process stays behind.
///
/// Threads: `run` is one thread's, which also made it; `stop` any, and signal handlers.
class Supervisor {
 public:
  /// @param output  Made for the same tasks. @param guard  Both outlive the supervisor.
  /// @throws Error  kResourceExhausted: no file descriptor is left.
  Supervisor(std::vector<SupervisedTask> tasks, const SupervisorOptions& options,
             const OrphanReaper& guard, TaskOutput& output);
  ~Supervisor();  // kills those that still run
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Starts all, and returns when all have ended, and none is to be started again.
  /// @return 0: all ended well. Else the first failed task's code, or 128 and its signal; the code
  ///     of preemption; 128 and the signal of `stop`.
  /// @throws Error  as ChildProcess.
  int run();

  /// The signal of `stop`, which tasks may have caught to end well; 0: none came.
  int stopped_by() const { return stopped_by_; }

  /// Passes `signal` to all tasks, kills them after `grace`, and lets `run` return. The second call
  /// kills them at once. Async-signal-safe.
  void stop(int signal) noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  /// What all tasks together are doing; from top to bottom only.
  enum class Phase {
    kRunning,
    kLingering,  // those that train have ended well
    kSettling,   // one has failed
    kEnding,     // they were asked to end
    kKilled,
  };
  struct Task {
    SupervisedTask spec;
    std::unique_ptr<ChildProcess> child = {};  ///< nullptr: does not run
    bool out_open = false;
    bool err_open = false;
    std::optional<ChildEnd> end = {};  ///< of its last start
    bool alone = false;                ///< started again while the others went on
    Clock::time_point started = {};
  };
  struct Failure {
    size_t task;
    ChildEnd end;
    Clock::duration life;
    std::vector<std::string> last_lines;
  };

  void run_once();
  void start(size_t task);
  void wait();
  void take_stop();
  void read(size_t task, bool to_the_end);
  void note_end(size_t task, const ChildEnd& end);
  void note_failure(Failure failure);
  void pass_deadline();
  void send_heartbeats();
  void end_all(Phase phase, int signal);

  std::string names_of_running() const;
  std::string hosts_of_running() const;
  bool others_ended(bool well) const;
  bool any_ended_well() const;
  bool preempted(const ChildEnd& end) const;
  bool blames(const Failure& failure, size_t other) const;
  bool blames_one_that_runs(const Failure& failure) const;
  int cause_priority(const Failure& failure) const;
  const Failure& cause() const;
  std::optional<std::string> may_restart(const Failure& failure);
  void report() const;
  int status() const;

  std::vector<Task> tasks_;
  const SupervisorOptions options_;
  const OrphanReaper& guard_;
  TaskOutput& output_;
  int wake_ = -1;  // an eventfd

  Phase phase_ = Phase::kRunning;
  std::optional<Clock::time_point> deadline_;
  std::optional<Clock::time_point> heartbeat_;  // the next one's time, if one has a host
  std::vector<Failure> failures_;               // by themselves, in this start
  int restarts_ = 0;
  std::vector<char> buffer_;

  std::atomic<int> stop_signal_{0};
  std::atomic<int> stops_{0};
  int stops_taken_ = 0;
  int stopped_by_ = 0;
};

}  // namespace strata::tools
