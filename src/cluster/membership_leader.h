#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/barriers.h"
#include "cluster/failure_detector.h"
#include "cluster/pending_request.h"
#include "cluster/store.h"
#include "core/log_limiter.h"
#include "core/wait_notice.h"
#include "strata/cluster/cluster_spec.h"

namespace strata::cluster {

struct MembershipLeaderOptions {
  ClusterSpec spec;
  std::vector<TaskId> members;  ///< tasks of every generation; the leader first
  Clock::Duration liveness;     ///< a task that is silent for this long is lost
};

/// The leader's state machine: membership, generations, keys and values, barriers, failure
/// detection. It has no thread, transport or clock: the caller passes sessions, messages and the
/// time, and takes the resulting messages from the outbox. Session 0 is the leader's own.
///
/// A generation begins when every member has asked to join. It ends for all members when one is
/// lost: each receives one kFailed with the same error, and calls fail until the next generation.
class MembershipLeader {
 public:
  explicit MembershipLeader(MembershipLeaderOptions options);

  /// A control connection from `task` was opened; the transport has authenticated it.
  void opened(uint64_t session, const TaskId& task, TimePoint now);
  void received(uint64_t session, const ControlMessage& message, TimePoint now);
  /// The connection was closed. @param how  "closed its connection", for errors. Not a failure if
  /// the task has left before.
  void closed(uint64_t session, const std::string& how, TimePoint now);
  /// Applies timeouts. Call it at `next_event()`, and at least four times per `liveness`. Time for
  /// which this process was suspended does not count as other tasks' silence (FailureDetector).
  void tick(TimePoint now);
  TimePoint next_event() const;

  Outbox take_outbox() { return std::exchange(outbox_, {}); }
  /// Sessions that the caller must close, and why.
  std::vector<std::pair<uint64_t, Status>> take_dropped() { return std::exchange(dropped_, {}); }

  uint64_t generation() const { return generation_; }
  const Status& failure() const { return failure_; }

 private:
  struct Session {
    TaskId task;
    std::string address;
    std::string operation;  // the last operation that the task has reported
    std::string call;       // its last request to the leader since then
    TimePoint operation_at;
    std::optional<PendingRequest> joining;
    bool exclude_lost = false;
    uint64_t seen_generation = 0;  // reported by the task; may have had another leader
    uint64_t member_of = 0;        // the last generation that it took part in
  };
  struct Suspicion {
    TaskId reporter;
    TaskId task;
    std::string what;
    TimePoint decide_at;
  };

  struct Gathering {
    std::string absent;  // tasks, their addresses, and why they were refused
    size_t present = 0;
  };

  void serve(uint64_t session, const ControlMessage& message, TimePoint now);
  void join(uint64_t session, const PendingRequest& pending, const ControlMessage& message,
            TimePoint now);
  std::optional<Status> refusal(uint64_t session, const ControlMessage& message) const;
  void begin_if_complete(TimePoint now);
  void begin(TimePoint now);
  void leave(uint64_t session, const PendingRequest& pending);
  void finish_leaving();
  void end_calls(uint64_t session, const std::string& why);
  void fail_generation(const TaskId& task, const Status& status);
  Suspicion likely_cause() const;
  void broadcast(const ControlMessage& message);
  Gathering gathering() const;
  void expire_joins(TimePoint now);
  void say_who_is_waited_for(TimePoint now);
  std::string describe(const TaskId& task) const;
  std::string last_operation(const Session& session, TimePoint now) const;
  bool running() const { return generation_ > 0 && failure_.ok() && !active_.empty(); }
  bool is_active(uint64_t session) const;

  const MembershipLeaderOptions options_;
  const TaskId leader_;
  std::map<uint64_t, Session> sessions_;
  uint64_t generation_ = 0;
  std::map<TaskId, uint64_t> active_;  // sessions of this generation
  std::set<TaskId> lost_;              // or left; not rejoined yet
  std::map<TaskId, std::string> refused_;
  FailureDetector detector_;  // of all sessions but the leader's own
  Status failure_;            // of this generation
  std::vector<Suspicion> suspicions_;
  std::optional<PendingRequest> leader_leaves_;
  Store store_;
  Barriers barriers_;
  std::optional<strata::detail::WaitNotice> gathering_notice_;  // while the leader waits for tasks
  Outbox outbox_;
  std::vector<std::pair<uint64_t, Status>> dropped_;
  strata::detail::LogLimiter refusals_;
};

}  // namespace strata::cluster
