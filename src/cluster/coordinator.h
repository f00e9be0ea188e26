#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cluster/barriers.h"
#include "cluster/store.h"
#include "cluster/waiter.h"
#include "core/log_limiter.h"
#include "core/wait_notice.h"
#include "strata/cluster/cluster_spec.h"

namespace strata::cluster {

struct CoordinatorOptions {
  ClusterSpec spec;
  std::vector<TaskId> members;  ///< who must be there; the leader first
  Clock::Duration liveness;     ///< a task that is silent for this long is lost
};

/// What the leader knows and decides: who is there, generations, keys and values, barriers, who is
/// lost. No thread, no wire, no clock of its own: sessions, messages and the time are handed in,
/// and messages come out. Session 0 is the leader's own; it is never lost.
///
/// A generation begins when every member has asked to join. It ends for all when a member is lost:
/// each gets one kFailed with the same error, and nothing works until the next generation.
class Coordinator {
 public:
  explicit Coordinator(CoordinatorOptions options);

  /// A connection that belongs to `task`, as the wire says.
  void opened(uint64_t session, const TaskId& task, TimePoint now);
  void received(uint64_t session, const ControlMessage& message, TimePoint now);
  /// The connection is gone. @param how  "closed its connection"; orderly if the task has left.
  void closed(uint64_t session, const std::string& how, TimePoint now);
  /// Looks at the clock: call it at `next_event()`, and at least four times in `liveness`; if it
  /// was not called for half of that, this process stood still, and nobody is silent for that.
  void tick(TimePoint now);
  TimePoint next_event() const;

  Outbox take_outbox() { return std::exchange(outbox_, {}); }
  /// Sessions that are to be closed, and why.
  std::vector<std::pair<uint64_t, Status>> take_dropped() { return std::exchange(dropped_, {}); }

  uint64_t generation() const { return generation_; }
  const Status& failure() const { return failure_; }

 private:
  struct Session {
    TaskId task;
    std::string address;
    TimePoint heard;
    std::string operation;  // what the task said last that it does
    std::string call;       // and what it asked of the leader meanwhile
    TimePoint operation_at;
    std::optional<Waiter> joining;
    bool without_lost = false;
    uint64_t seen_generation = 0;  // as it says, which may have had another leader
    uint64_t member_of = 0;        // the generation that it took part in last
  };
  struct Suspicion {
    TaskId reporter;
    TaskId task;
    std::string what;
    TimePoint decide_at;
  };

  struct Gathering {
    std::string absent;  // tasks, where they are expected, and why they were refused
    size_t there = 0;
  };

  void serve(uint64_t session, const ControlMessage& message, TimePoint now);
  void join(uint64_t session, const Waiter& waiter, const ControlMessage& message, TimePoint now);
  std::optional<Status> refusal(uint64_t session, const ControlMessage& message) const;
  void begin_if_complete(TimePoint now);
  void begin(TimePoint now);
  void leave(uint64_t session, const Waiter& waiter);
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

  const CoordinatorOptions options_;
  const TaskId leader_;
  std::map<uint64_t, Session> sessions_;
  uint64_t generation_ = 0;
  std::map<TaskId, uint64_t> active_;  // sessions of this generation
  std::set<TaskId> lost_;              // or ended, and not back yet
  std::map<TaskId, std::string> refused_;
  Status failure_;  // of this generation
  std::vector<Suspicion> suspicions_;
  std::optional<Waiter> leader_leaves_;
  Store store_;
  Barriers barriers_;
  std::optional<TimePoint> ticked_;
  std::optional<strata::detail::WaitNotice> gathering_notice_;  // while the leader waits for tasks
  Outbox outbox_;
  std::vector<std::pair<uint64_t, Status>> dropped_;
  strata::detail::LogLimiter refusals_;  // a stranger may ask as often as it likes
};

}  // namespace strata::cluster
