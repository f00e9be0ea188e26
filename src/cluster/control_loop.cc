#include "cluster/control_loop.h"

#include <algorithm>
#include <condition_variable>
#include <utility>

#include "core/mutex.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::cluster {
namespace {

constexpr uint32_t kChannel = 0;
// How late the thread may be with what comes while no thread waits on the transport.
constexpr auto kTick = std::chrono::milliseconds(20);
// A task has one control connection, and for a while the one before it, too.
constexpr ptrdiff_t kMaxConnectionsOfTask = 8;
constexpr ptrdiff_t kMaxConnectionsOfNonMembers = 32;  // tasks that are no members, all together

}  // namespace

ControlLoop::ControlLoop(Options options, wire::Transport& transport, OnFailure on_failure)
    : options_(std::move(options)),
      transport_(transport),
      on_failure_(std::move(on_failure)),
      detector_(control_timing(options_.liveness), Clock::system().now()) {
  if (leads()) {
    membership_.emplace(MembershipLeaderOptions{.spec = options_.spec,
                                                .members = options_.members,
                                                .liveness = detector_.timing().silence_limit});
    membership_->opened(kLeaderSession, options_.task, detector_.next_heartbeat());
  }
  thread_ = Thread("strata-cluster", [this](std::stop_token stop) { run(stop); });
}

ControlLoop::~ControlLoop() { stop(wire::Deadline::after({})); }

void ControlLoop::stop(wire::Deadline deadline) {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  Connections connections;
  {
    const MutexLock lock(arrivals_mutex_);
    connections.swap(connections_);
  }
  for (const auto& connection : connections) connection.second->close(deadline);
}

void ControlLoop::accept(std::shared_ptr<wire::Connection> connection) {
  const TaskId task = TaskId::parse(connection->peer().task);
  {
    const MutexLock lock(mutex_);
    const MutexLock arrivals_lock(arrivals_mutex_);
    if (has_room_for(task)) {
      const uint64_t session = next_session_++;
      membership_->opened(session, task, Clock::system().now());
      connections_[session] = std::exchange(connection, nullptr);
    }
  }
  if (connection == nullptr) return transport_.wake();  // it may have sent something already
  const Status why(ErrorCode::kResourceExhausted,
                   str_cat("[cluster] ", task.to_string(),
                           " has too many control connections open; expected one"));
  connection->fail(why);
  if (const auto count = refusals_.admit()) STRATA_LOG(kWarning) << why.message() << *count;
}

bool ControlLoop::has_room_for(const TaskId& task) const {
  const auto member = [this](const TaskId& each) {
    return std::ranges::count(options_.members, each) > 0;
  };
  const bool is_member = member(task);
  const auto alike = std::ranges::count_if(connections_, [&](const auto& each) {
    const TaskId other = TaskId::parse(each.second->peer().task);
    return is_member ? other == task : !member(other);
  });
  return alike < (is_member ? kMaxConnectionsOfTask : kMaxConnectionsOfNonMembers);
}

void ControlLoop::attach(std::shared_ptr<wire::Connection> connection) {
  {
    const MutexLock lock(mutex_);
    detector_.add(kLeaderSession, Clock::system().now());
    leader_closing_ = false;
    const MutexLock arrivals_lock(arrivals_mutex_);
    connections_[kLeaderSession] = std::move(connection);
  }
  transport_.wake();
}

bool ControlLoop::attached() const {
  const MutexLock lock(arrivals_mutex_);
  return connections_.contains(kLeaderSession);
}

// It does not wait on the transport: that would make it the one that moves bytes for all, and every
// tensor would cost two more switches between threads (8 B over loopback: 11 us instead of 6).
void ControlLoop::run(const std::stop_token& stop) {
  Mutex mutex;
  std::condition_variable_any never;
  while (!stop.stop_requested()) {
    TimePoint until;
    {
      const TimePoint now = Clock::system().now();
      const MutexLock lock(mutex_);
      until = std::min(next_event(now), now + kTick);
    }
    {
      MutexLock lock(mutex);
      never.wait_until(lock, stop, until, [] { return false; });
    }
    try {
      (void)transport_.progress();  // nothing, if a thread waits there
      (void)poll();
      handle_arrivals();
    } catch (...) {
      // Want of memory, say: the task lives on, and its waits have deadlines.
      const Status why = Status::from_current_exception();
      if (const auto count = refusals_.admit()) {
        STRATA_LOG(kError) << "[cluster] heartbeats: " << why.message() << *count;
      }
    }
  }
}

TimePoint ControlLoop::next_event(TimePoint now) const {
  TimePoint next =
      std::min(detector_.next_heartbeat(), now + detector_.timing().heartbeat_interval);
  if (membership_) next = std::min(next, membership_->next_event());
  return next;
}

// Within the transport's wait: takes what has come, and handles nothing.
bool ControlLoop::poll() {
  const MutexLock lock(arrivals_mutex_);
  for (auto it = connections_.begin(); it != connections_.end();) {
    const auto current = it++;
    const auto& [session, connection] = *current;
    try {
      while (auto text = connection->try_receive_message(kChannel)) {
        arrivals_.push_back({session, std::move(*text), {}});
      }
    } catch (const Error& error) {
      std::string_view why = error.what();
      const std::string prefix = str_cat("[wire] ", connection->name(), ": ");
      if (why.starts_with(prefix)) why.remove_prefix(prefix.size());
      arrivals_.push_back({session, std::nullopt, std::string(why)});
      connections_.erase(current);
    }
  }
  return !arrivals_.empty();
}

void ControlLoop::handle_arrivals() {
  bool wake = false;
  Status failure;
  uint64_t generation = 0;
  std::stop_source failed;
  {
    const MutexLock lock(mutex_);
    const TimePoint now = Clock::system().now();
    std::vector<Arrival> arrivals;
    {
      const MutexLock arrivals_lock(arrivals_mutex_);
      arrivals.swap(arrivals_);
    }
    for (Arrival& arrival : arrivals) handle(arrival, now);
    tick(now);
    deliver();
    wake = std::exchange(wake_, false);
    if (std::exchange(announce_, false)) failure = failure_;
    generation = generation_;
    failed = failed_;
  }
  // Unlocked: these call into other parts of the program.
  if (!failure.ok()) {
    on_failure_(failure, generation);
    failed.request_stop();
  }
  if (wake || !failure.ok()) transport_.wake();
}

void ControlLoop::handle(Arrival& arrival, TimePoint now) {
  if (!arrival.text) {
    const std::string how = str_cat("closed its connection without leaving (", arrival.why, ")");
    if (membership_) {
      membership_->closed(arrival.session, how, now);
    } else {
      // The details differ from task to task, and all are to get one error.
      STRATA_LOG(kInfo) << "[cluster] " << options_.leader.to_string() << " " << how;
      leader_is_gone("closed its connection without leaving");
    }
    return;
  }
  try {
    const ControlMessage message = decode(*std::exchange(arrival.text, std::nullopt));
    if (membership_) {
      membership_->received(arrival.session, message, now);
    } else {
      detector_.heard(kLeaderSession, now);
      leader_operation_ = message.operation;
      handle_message(message);
    }
  } catch (...) {  // it ends that peer's connection, and never this task
    const Status why = Status::from_current_exception();
    drop(arrival.session, Status(why.code(), why.message()));
    const std::string how =
        str_cat(why.code() == ErrorCode::kResourceExhausted ? "sent more than memory allows: "
                                                            : "sent a malformed message: ",
                why.message());
    if (membership_) {
      membership_->closed(arrival.session, how, now);
    } else {
      leader_is_gone(how);
    }
  }
}

// What the leader says, be it this very task.
void ControlLoop::handle_message(const ControlMessage& message) {
  switch (message.kind) {
    case MessageKind::kReply: {
      const auto found = pending_calls_.find(message.request);
      if (found == pending_calls_.end()) return;  // withdrawn
      PendingCall& pending = *found->second;
      pending.answer = message;
      if (pending.kind == MessageKind::kJoin && message.code == ErrorCode::kOk) begin(message);
      if (pending.kind == MessageKind::kLeave) left_ = true;
      pending_calls_.erase(found);
      finish(pending,
             message.code == ErrorCode::kOk ? Status() : Status(message.code, message.value));
      return;
    }
    case MessageKind::kHeartbeatAck:
      return;  // that it came is what counts
    case MessageKind::kFailed:
      if (message.generation == generation_) fail(Status(message.code, message.value));
      return;
    case MessageKind::kJoinPending:
      newcomers_.insert(TaskId::parse(message.name));
      wake_ = true;
      return;
    case MessageKind::kClosing:
      leader_closing_ = true;
      return;
    default:
      if (const auto more = refusals_.admit()) {
        STRATA_LOG(kWarning) << "[cluster] the leader sent a message of kind "
                             << static_cast<uint32_t>(message.kind) << ", which tasks do not get"
                             << *more;
      }
  }
}

void ControlLoop::leader_is_gone(const std::string& how) {
  const auto address = options_.spec.has_task(options_.leader)
                           ? options_.spec.task_address(options_.leader)
                           : std::string();
  const std::string leader = str_cat(options_.leader.to_string(), " at ", address, ", the leader,");
  Status status;
  if (leader_closing_ || left_) {
    status = {ErrorCode::kFailedPrecondition, str_cat("[cluster] ", leader, " has ended")};
  } else {
    status = {
        ErrorCode::kUnavailable,
        str_cat("[cluster] ", leader, " is lost: it ", how,
                leader_operation_.empty() ? "; what it did last is not known"
                                          : "; its last known operation: " + leader_operation_)};
    if (generation_ > 0) STRATA_LOG(kWarning) << status.message();
  }
  if (!left_) fail(status);
  for (auto& entry : std::exchange(pending_calls_, {})) finish(*entry.second, status);
}

void ControlLoop::begin(const ControlMessage& answer) {
  generation_ = answer.generation;
  members_.clear();
  for (const auto& [task, address] : answer.tasks) {
    members_.push_back({TaskId::parse(task), address});
  }
  newcomers_.clear();  // they are members, or have ended again
  failure_ = Status();
  announce_ = false;
  left_ = false;
  failed_ = std::stop_source();
}

void ControlLoop::fail(const Status& status) {
  if (!failure_.ok()) return;
  failure_ = status;
  announce_ = true;
  // Those that ask to join, or to leave, have nothing to do with this generation.
  for (auto it = pending_calls_.begin(); it != pending_calls_.end();) {
    PendingCall& pending = *it->second;
    if (pending.kind == MessageKind::kJoin || pending.kind == MessageKind::kLeave) {
      ++it;
    } else {
      it = pending_calls_.erase(it);
      finish(pending, status);
    }
  }
}

// The slot is its waiter's: not to be touched afterwards.
void ControlLoop::finish(PendingCall& pending, Status status) {
  pending.status = std::move(status);
  pending.done.store(true, std::memory_order_release);
  wake_ = true;
}

void ControlLoop::tick(TimePoint now) {
  if (membership_) {
    membership_->tick(now);
  } else {
    (void)detector_.tick(now);
    if (attached() && detector_.is_lost(kLeaderSession, now)) {
      const std::string how =
          str_cat("was silent for more than ", seconds_text(detector_.timing().silence_limit));
      drop(kLeaderSession, {ErrorCode::kUnavailable, str_cat("[cluster] it ", how)});
      leader_is_gone(how);
    }
  }
  if (!detector_.heartbeat_due(now)) return;
  detector_.heartbeat_sent(now);
  ControlMessage heartbeat;
  heartbeat.kind = MessageKind::kHeartbeat;
  heartbeat.generation = generation_;
  heartbeat.operation = operation_;
  if (membership_) {
    membership_->received(kLeaderSession, heartbeat, now);
  } else {
    send(kLeaderSession, heartbeat);
  }
}

// What the membership leader has decided; what it tells this very task may lead to more.
void ControlLoop::deliver() {
  if (!membership_) return;
  while (true) {
    const Outbox out = membership_->take_outbox();
    if (out.empty()) break;
    for (const Envelope& each : out) {
      if (each.session == kLeaderSession) {
        handle_message(each.message);
      } else {
        ControlMessage message = each.message;
        message.operation = operation_;
        send(each.session, message);
      }
    }
  }
  for (const auto& [session, status] : membership_->take_dropped()) drop(session, status);
}

void ControlLoop::send(uint64_t session, const ControlMessage& message) {
  std::shared_ptr<wire::Connection> connection;
  {
    const MutexLock lock(arrivals_mutex_);
    const auto found = connections_.find(session);
    if (found == connections_.end()) return;
    connection = found->second;
  }
  try {
    connection->send_message(kChannel, encode(message));
  } catch (const Error& error) {
    // It is broken, which poll() will see; or its other end does not read.
    if (error.code() == ErrorCode::kResourceExhausted) {
      connection->fail(Status(error.code(), error.what()));
    }
  }
}

void ControlLoop::drop(uint64_t session, const Status& status) {
  std::shared_ptr<wire::Connection> connection;
  {
    const MutexLock lock(arrivals_mutex_);
    const auto found = connections_.find(session);
    if (found == connections_.end()) return;
    connection = std::move(found->second);
    connections_.erase(found);
  }
  connection->fail(status);
}

uint64_t ControlLoop::generation() const {
  const MutexLock lock(mutex_);
  return generation_;
}

std::vector<Member> ControlLoop::members() const {
  const MutexLock lock(mutex_);
  return members_;
}

Status ControlLoop::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

std::stop_token ControlLoop::failed() const {
  const MutexLock lock(mutex_);
  return failed_.get_token();
}

std::vector<TaskId> ControlLoop::newcomers() const {
  const MutexLock lock(mutex_);
  return {newcomers_.begin(), newcomers_.end()};
}

void ControlLoop::set_operation(std::string_view operation) {
  const MutexLock lock(mutex_);
  operation_ = operation;
}

}  // namespace strata::cluster
