#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "cluster/control_message.h"
#include "cluster/failure_detector.h"
#include "cluster/membership_leader.h"
#include "core/log_limiter.h"
#include "core/mutex.h"
#include "core/thread.h"
#include "strata/cluster/server.h"
#include "wire/connection.h"
#include "wire/transport.h"

namespace strata::cluster {

/// Sends and receives the control messages of one task: at the leader for the MembershipLeader,
/// over one connection a task; elsewhere over one connection to the leader. A caller that waits for
/// a reply processes incoming messages meanwhile; a thread does so fifty times a second, and sends
/// heartbeats.
class ControlLoop {
 public:
  struct Options {
    ClusterSpec spec;
    TaskId task;
    TaskId leader;
    std::vector<TaskId> members;
    Clock::Duration liveness;
  };
  using OnFailure = std::function<void(const Status&, uint64_t generation)>;

  /// @param on_failure  Called once for each generation that fails, by any thread; must not block.
  ControlLoop(Options options, wire::Transport& transport, OnFailure on_failure);
  ~ControlLoop();

  bool leads() const { return options_.task == options_.leader; }

  /// At the leader: a task has connected.
  void accept(std::shared_ptr<wire::Connection> connection);
  /// Elsewhere: sets the connection to the leader; replaces a broken one.
  void attach(std::shared_ptr<wire::Connection> connection);
  bool attached() const;

  /// Joins the next generation, and waits until it begins.
  void join(const std::string& address, bool exclude_lost, wire::Deadline deadline);
  /// Sends a request and waits for its reply. @throws Error  the reply's error, or the
  /// generation's.
  ControlMessage call(ControlMessage request, wire::Deadline deadline);
  /// Leaves in an orderly way, also after a failure. Does not throw.
  void leave(wire::Deadline deadline);
  /// Sends a message that has no reply.
  void post(ControlMessage message);

  /// Waits until the generation has failed. @return whether it has.
  bool wait_for_failure(wire::Deadline deadline);

  uint64_t generation() const;
  std::vector<Member> members() const;
  Status failure() const;
  std::stop_token failed() const;
  std::vector<TaskId> newcomers() const;
  void set_operation(std::string_view operation);

  /// Ends the thread and the connections.
  void stop(wire::Deadline deadline);

 private:
  static constexpr uint64_t kLeaderSession = 0;  // at the leader: itself; elsewhere: the leader

  struct PendingCall {
    MessageKind kind;
    std::string name;       // of the key or barrier
    ControlMessage answer;  // under mutex_, until done
    Status status;
    std::atomic<bool> done = false;
  };
  struct Arrival {
    uint64_t session;
    std::optional<std::string> text;  // nullopt: the connection was closed
    std::string why;
  };
  using Connections = std::map<uint64_t, std::shared_ptr<wire::Connection>>;

  void run(const std::stop_token& stop);
  bool poll();
  bool has_room_for(const TaskId& task) const STRATA_REQUIRES(arrivals_mutex_);
  void handle_arrivals();
  void handle(Arrival& arrival, TimePoint now) STRATA_REQUIRES(mutex_);
  void handle_message(const ControlMessage& message) STRATA_REQUIRES(mutex_);
  void leader_is_gone(const std::string& how) STRATA_REQUIRES(mutex_);
  void begin(const ControlMessage& answer) STRATA_REQUIRES(mutex_);
  void fail(const Status& status) STRATA_REQUIRES(mutex_);
  void finish(PendingCall& pending, Status status) STRATA_REQUIRES(mutex_);
  void tick(TimePoint now) STRATA_REQUIRES(mutex_);
  void deliver() STRATA_REQUIRES(mutex_);
  void send(uint64_t session, const ControlMessage& message) STRATA_EXCLUDES(arrivals_mutex_);
  void drop(uint64_t session, const Status& status) STRATA_EXCLUDES(arrivals_mutex_);
  uint64_t request(ControlMessage message, PendingCall& pending, wire::Deadline deadline);
  std::string waits_for(const PendingCall& pending) const;
  void wait(PendingCall& pending, uint64_t number, wire::Deadline deadline);
  TimePoint next_event(TimePoint now) const STRATA_REQUIRES(mutex_);

  const Options options_;
  wire::Transport& transport_;
  const OnFailure on_failure_;

  mutable Mutex mutex_;
  std::optional<MembershipLeader> membership_ STRATA_GUARDED_BY(mutex_);
  uint64_t next_session_ STRATA_GUARDED_BY(mutex_) = 1;
  uint64_t next_request_ STRATA_GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, PendingCall*> pending_calls_ STRATA_GUARDED_BY(mutex_);
  uint64_t generation_ STRATA_GUARDED_BY(mutex_) = 0;
  std::vector<Member> members_ STRATA_GUARDED_BY(mutex_);
  Status failure_ STRATA_GUARDED_BY(mutex_);
  std::stop_source failed_ STRATA_GUARDED_BY(mutex_);
  // A failure that was not reported to on_failure_.
  bool announce_ STRATA_GUARDED_BY(mutex_) = false;
  std::set<TaskId> newcomers_ STRATA_GUARDED_BY(mutex_);
  std::string operation_ STRATA_GUARDED_BY(mutex_);
  std::string leader_operation_ STRATA_GUARDED_BY(mutex_);
  bool leader_closing_ STRATA_GUARDED_BY(mutex_) = false;
  // After an orderly leave: a lost connection is no failure.
  bool left_ STRATA_GUARDED_BY(mutex_) = false;
  // Of the leader, if this task is another; and the heartbeats.
  FailureDetector detector_ STRATA_GUARDED_BY(mutex_);
  bool wake_ STRATA_GUARDED_BY(mutex_) = false;  // another thread's call is done

  mutable Mutex arrivals_mutex_;  // locked after mutex_, if both are
  Connections connections_ STRATA_GUARDED_BY(arrivals_mutex_);
  std::vector<Arrival> arrivals_ STRATA_GUARDED_BY(arrivals_mutex_);
  strata::detail::LogLimiter refusals_;

  Thread thread_;
};

}  // namespace strata::cluster
