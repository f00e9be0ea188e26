#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "cluster/control_message.h"
#include "cluster/coordinator.h"
#include "core/log_limiter.h"
#include "strata/cluster/server.h"
#include "strata/core/thread.h"
#include "strata/wire/connection.h"
#include "strata/wire/transport.h"

namespace strata::cluster {

/// The control messages of one task: at the leader the Coordinator with a connection a task, else
/// one connection to the leader. Whoever waits for an answer reads and handles what comes; a thread
/// does so fifty times a second, and keeps heartbeats and deadlines going.
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

  /// @param on_failure  Called once a generation when it fails, by some thread; must not wait.
  ControlLoop(Options options, wire::Transport& transport, OnFailure on_failure);
  ~ControlLoop();

  bool leads() const { return options_.task == options_.leader; }

  /// At the leader: a task has come.
  void accept(std::shared_ptr<wire::Connection> connection);
  /// Elsewhere: the way to the leader; replaces one that has broken.
  void attach(std::shared_ptr<wire::Connection> connection);
  bool attached() const;

  /// Asks to join the next generation, and waits for it.
  void join(const std::string& address, bool without_lost, wire::Deadline deadline);
  /// Sends a request and waits for its answer. @throws Error  what the answer says, or the
  /// generation's failure.
  ControlMessage call(ControlMessage request, wire::Deadline deadline);
  /// The same for the orderly end, which works after a failure, too. Does not throw.
  void leave(wire::Deadline deadline);
  /// Sends what has no answer.
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

  struct Slot {
    MessageKind kind;
    std::string name;       // of the key or barrier
    ControlMessage answer;  // guarded by mutex_, until done
    Status status;
    std::atomic<bool> done = false;
  };
  struct Arrival {
    uint64_t session;
    std::optional<std::string> text;  // nullopt: the connection is gone
    std::string why;
  };
  using Connections = std::map<uint64_t, std::shared_ptr<wire::Connection>>;

  void run(const std::stop_token& stop);
  bool poll();
  bool has_room_for(const TaskId& task) const;  // with both mutexes held
  void handle_arrivals();
  void handle(Arrival& arrival, TimePoint now);
  void handle_message(const ControlMessage& message);
  void leader_is_gone(const std::string& how);
  void begin(const ControlMessage& answer);
  void fail(const Status& status);
  void finish(Slot& slot, Status status);
  void tick(TimePoint now);
  void deliver();
  void send(uint64_t session, const ControlMessage& message);
  void drop(uint64_t session, const Status& status);
  uint64_t request(ControlMessage message, Slot& slot, wire::Deadline deadline);
  std::string waits_for(const Slot& slot) const;
  void wait(Slot& slot, uint64_t number, wire::Deadline deadline);
  TimePoint next_event(TimePoint now) const;

  const Options options_;
  const Clock::Duration beat_;  // between heartbeats
  wire::Transport& transport_;
  const OnFailure on_failure_;

  mutable std::mutex mutex_;  // everything but what follows below
  std::optional<Coordinator> coordinator_;
  uint64_t next_session_ = 1;
  uint64_t next_request_ = 1;
  std::map<uint64_t, Slot*> slots_;
  uint64_t generation_ = 0;
  std::vector<Member> members_;
  Status failure_;
  std::stop_source failed_;
  bool announce_ = false;  // a failure that on_failure_ has not heard of
  std::set<TaskId> newcomers_;
  std::string operation_;
  TimePoint leader_heard_;
  std::string leader_operation_;
  bool leader_closing_ = false;
  bool left_ = false;  // the orderly end: what happens now is no failure
  TimePoint ticked_;
  TimePoint beat_at_;
  bool wake_ = false;  // somebody else's slot is done

  mutable std::mutex arrivals_mutex_;  // taken after mutex_, if at all
  Connections connections_;
  std::vector<Arrival> arrivals_;
  strata::detail::LogLimiter refusals_;

  Thread thread_;
};

}  // namespace strata::cluster
