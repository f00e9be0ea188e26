#include "cluster/membership_leader.h"

#include <algorithm>

#include "strata/core/json.h"
#include "strata/core/log.h"

namespace strata::cluster {
namespace {

// After a connection between two tasks has broken: time for the control connection of one to break.
constexpr auto kSuspicionTime = std::chrono::milliseconds(500);
constexpr uint64_t kLeaderSession = 0;

std::string quoted_or_none(const std::optional<std::string>& address) {
  return address ? str_cat("\"", *address, "\"") : "no such task";
}

// The operation that a request reveals.
std::string call_of(const ControlMessage& message) {
  switch (message.kind) {
    case MessageKind::kBarrier:
      return str_cat("barrier \"", message.name, "\"");
    case MessageKind::kGet:
      return str_cat("get \"", message.name, "\"");
    case MessageKind::kLeave:
      return "shutdown";
    default:
      return "";
  }
}

}  // namespace

MembershipLeader::MembershipLeader(MembershipLeaderOptions options)
    : options_(std::move(options)),
      leader_(options_.members.front()),
      detector_({.silence_limit = options_.liveness,
                 .heartbeat_interval = {},  // the control loop's business
                 .forgives_suspension = true}),
      barriers_([this](const TaskId& task) { return describe(task); }) {}

std::string MembershipLeader::describe(const TaskId& task) const {
  for (const auto& entry : sessions_) {
    const Session& session = entry.second;
    if (session.task == task && !session.address.empty()) {
      return str_cat(task.to_string(), " at ", session.address);
    }
  }
  return options_.spec.has_task(task)
             ? str_cat(task.to_string(), " at ", options_.spec.task_address(task))
             : task.to_string();
}

bool MembershipLeader::is_active(uint64_t session) const {
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) return false;
  const auto active = active_.find(it->second.task);
  return active != active_.end() && active->second == session;
}

void MembershipLeader::opened(uint64_t session, const TaskId& task, TimePoint now) {
  Session fresh;
  fresh.task = task;
  if (session != kLeaderSession) detector_.add(session, now);
  sessions_[session] = std::move(fresh);
}

void MembershipLeader::received(uint64_t session, const ControlMessage& message, TimePoint now) {
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  detector_.heard(session, now);
  it->second.operation_at = now;
  if (it->second.operation != message.operation) {
    it->second.operation = message.operation;
    it->second.call.clear();
  }
  if (std::string call = call_of(message); !call.empty()) it->second.call = std::move(call);
  try {
    serve(session, message, now);
  } catch (const Error& error) {  // invalid task names
    dropped_.emplace_back(session, Status(ErrorCode::kDataLoss, error.what()));
    closed(session, str_cat("sent a malformed message: ", error.what()), now);
  }
}

void MembershipLeader::serve(uint64_t session, const ControlMessage& message, TimePoint now) {
  // At most a year: a deadline must not overflow.
  const uint64_t timeout_ms =
      std::min<uint64_t>(message.timeout_ms, uint64_t{1000} * 3600 * 24 * 365);
  const PendingRequest pending = {.session = session,
                                  .request = message.request,
                                  .deadline = now + std::chrono::milliseconds(timeout_ms),
                                  .timeout_ms = timeout_ms};
  const TaskId task = sessions_.at(session).task;
  switch (message.kind) {
    case MessageKind::kHeartbeat: {
      ControlMessage heartbeat;
      heartbeat.kind = MessageKind::kHeartbeatAck;
      heartbeat.generation = generation_;
      if (session != kLeaderSession) outbox_.push_back({session, std::move(heartbeat)});
      return;
    }
    case MessageKind::kCancel: {
      store_.cancel(session, message.request);
      barriers_.cancel(session, message.request);
      auto& joining = sessions_.at(session).joining;
      if (joining && joining->request == message.request) joining.reset();
      return;
    }
    case MessageKind::kJoin:
      return join(session, pending, message, now);
    case MessageKind::kLeave:
      return leave(session, pending);
    default:
      break;
  }
  // All other messages belong to a generation.
  if (!is_active(session) || message.generation != generation_ || !failure_.ok()) {
    const bool same = message.generation == generation_;
    if (message.request != 0) {
      pending.fail(outbox_, same && !failure_.ok()
                                ? failure_
                                : Status(ErrorCode::kAborted,
                                         str_cat("[cluster] generation ", message.generation,
                                                 " is over; now is ", generation_)));
    }
    return;
  }
  switch (message.kind) {
    case MessageKind::kSet:
      return store_.set(pending, message, outbox_);
    case MessageKind::kGet:
      return store_.get(pending, message, outbox_);
    case MessageKind::kCompareAndSet:
      return store_.compare_and_set(pending, message, outbox_);
    case MessageKind::kErase:
      return store_.erase(pending, message, outbox_);
    case MessageKind::kBarrier:
      return barriers_.arrive(task, pending, message, outbox_);
    case MessageKind::kSuspect:
      suspicions_.push_back({.reporter = task,
                             .task = TaskId::parse(message.name),
                             .what = message.value,
                             .decide_at = now + kSuspicionTime});
      return;
    case MessageKind::kAbort:
      if (message.code != ErrorCode::kOk) {
        return fail_generation(
            task, {message.code, str_cat("[cluster] ", describe(task), ": ", message.value)});
      }
      return fail_generation(task, {ErrorCode::kAborted, str_cat("[cluster] ", describe(task),
                                                                 " aborted: ", message.value)});
    default:
      throw Error(ErrorCode::kDataLoss, str_cat("[cluster] control message: got kind ",
                                                static_cast<uint32_t>(message.kind)));
  }
}

std::optional<Status> MembershipLeader::refusal(uint64_t session,
                                                const ControlMessage& message) const {
  const Session& own = sessions_.at(session);
  const auto refuse = [&](ErrorCode code, const std::string& what) {
    return Status(code, str_cat("[cluster] rendezvous: ", what));
  };
  if (std::ranges::count(options_.members, own.task) == 0) {
    return refuse(ErrorCode::kInvalidArgument,
                  str_cat("got ", own.task.to_string(), ", which is not in the leader's cluster, ",
                          options_.spec.to_string()));
  }
  const ClusterSpec spec = ClusterSpec::from_json(Json::parse(message.value));
  if (const auto difference = first_difference(options_.spec, spec)) {
    return refuse(ErrorCode::kInvalidArgument,
                  str_cat("got two cluster specs: for ", difference->task.to_string(),
                          " the leader ", leader_.to_string(), " has ",
                          quoted_or_none(difference->left), ", ", own.task.to_string(), " has ",
                          quoted_or_none(difference->right), "; give all tasks the same one"));
  }
  for (const auto& [other, remote] : sessions_) {
    if (other == session || remote.task != own.task || !remote.joining) continue;
    return refuse(
        ErrorCode::kAlreadyExists,
        str_cat("got two processes that are ", own.task.to_string(), ", one at ", remote.address,
                " and one at ", message.address, "; give each its own task"));
  }
  return std::nullopt;
}

void MembershipLeader::join(uint64_t session, const PendingRequest& pending,
                            const ControlMessage& message, TimePoint now) {
  Session& own = sessions_.at(session);
  if (const auto status = refusal(session, message)) {
    if (const auto count = refusals_.admit()) STRATA_LOG(kWarning) << status->message() << *count;
    // Only of members: other peers could fill the map.
    if (std::ranges::count(options_.members, own.task) > 0) {
      refused_[own.task] = status->message();
    }
    pending.fail(outbox_, *status);
    return;
  }
  refused_.erase(own.task);
  if (own.joining) {
    own.joining->fail(outbox_, {ErrorCode::kCancelled, "[cluster] this task has joined again"});
  }
  own.address = message.address;
  own.joining = pending;
  own.exclude_lost = message.flag;
  own.seen_generation = message.number;
  const bool was_active = is_active(session);
  if (was_active) {
    end_calls(session, "asks for the next generation");
    active_.erase(own.task);
  }
  if (!was_active && running()) {
    ControlMessage newcomer;
    newcomer.kind = MessageKind::kJoinPending;
    newcomer.generation = generation_;
    newcomer.name = own.task.to_string();
    broadcast(newcomer);
  }
  begin_if_complete(now);
}

void MembershipLeader::begin_if_complete(TimePoint now) {
  std::set<TaskId> waiting;
  bool exclude_lost = true;
  for (const auto& entry : sessions_) {
    if (!entry.second.joining) continue;
    waiting.insert(entry.second.task);
    // The survivors of the last generation decide.
    const bool survived = entry.second.member_of == generation_;
    exclude_lost = exclude_lost && (entry.second.exclude_lost || !survived);
  }
  if (!waiting.contains(leader_)) return;
  for (const TaskId& member : options_.members) {
    if (waiting.contains(member)) continue;
    if (!exclude_lost || generation_ == 0 || !lost_.contains(member)) return;
  }
  begin(now);
}

void MembershipLeader::begin(TimePoint now) {
  const Status over = {ErrorCode::kAborted, "[cluster] a new generation has begun"};
  store_.clear(over, outbox_);
  barriers_.clear(over, outbox_);
  suspicions_.clear();
  failure_ = Status();
  active_.clear();
  ControlMessage answer;
  for (const auto& entry : sessions_) {
    if (entry.second.joining) generation_ = std::max(generation_, entry.second.seen_generation);
  }
  answer.generation = ++generation_;
  for (const TaskId& member : options_.members) {
    for (const auto& [id, session] : sessions_) {
      if (session.task != member || !session.joining) continue;
      answer.tasks.push_back({member.to_string(), session.address});
      active_[member] = id;
      lost_.erase(member);
    }
  }
  for (auto& entry : sessions_) {
    Session& session = entry.second;
    if (!session.joining) continue;
    session.member_of = generation_;
    session.joining->reply(outbox_, answer);
    session.joining.reset();
    session.call = str_cat("start of generation ", generation_);
    session.operation_at = now;
  }
}

// Fails the pending calls of a task that itself ends its part in the generation.
void MembershipLeader::end_calls(uint64_t session, const std::string& why) {
  const Status status = {ErrorCode::kCancelled, str_cat("[cluster] this task ", why)};
  store_.fail(session, status, outbox_);
  barriers_.fail(session, status, outbox_);
}

void MembershipLeader::leave(uint64_t session, const PendingRequest& pending) {
  const TaskId task = sessions_.at(session).task;
  constexpr const char* kWhy = "has left";
  end_calls(session, kWhy);
  if (is_active(session)) {
    active_.erase(task);
    lost_.insert(task);
    if (failure_.ok()) barriers_.left(task, outbox_);
  }
  auto& joining = sessions_.at(session).joining;
  if (joining) {
    joining->fail(outbox_, {ErrorCode::kCancelled, str_cat("[cluster] this task ", kWhy)});
    joining.reset();
  }
  if (session != kLeaderSession) {
    pending.reply(outbox_);
  } else if (!leader_leaves_) {
    leader_leaves_ = pending;
  } else {
    pending.reply(outbox_);  // the first call waits
  }
  finish_leaving();
}

// The leader leaves last: until then it serves the others.
void MembershipLeader::finish_leaving() {
  if (!leader_leaves_ || running()) return;
  ControlMessage closing;
  closing.kind = MessageKind::kClosing;
  for (const auto& entry : sessions_) {
    if (entry.first != kLeaderSession) outbox_.push_back({entry.first, closing});
  }
  leader_leaves_->reply(outbox_);
  leader_leaves_.reset();
}

void MembershipLeader::closed(uint64_t session, const std::string& how, TimePoint now) {
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) return;
  const TaskId task = it->second.task;
  const std::string who = describe(task);
  const std::string last = last_operation(it->second, now);
  const bool was_active = is_active(session);
  const bool was_joining = it->second.joining.has_value();
  Outbox discarded;
  store_.fail(session, {}, discarded);
  barriers_.fail(session, {}, discarded);
  sessions_.erase(it);
  detector_.remove(session);
  if (was_active) {
    lost_.insert(task);
    active_.erase(task);
    fail_generation(
        task, {ErrorCode::kUnavailable, str_cat("[cluster] ", who, " is lost: it ", how, last)});
  } else if (was_joining) {
    if (const auto more = refusals_.admit()) {
      STRATA_LOG(kWarning) << "[cluster] rendezvous: " << who << " " << how
                           << " before all tasks had joined" << *more;
    }
  }
  finish_leaving();
  // A restarted process may be waiting to take its place.
  begin_if_complete(now);
}

std::string MembershipLeader::last_operation(const Session& session, TimePoint now) const {
  const std::string_view between = session.operation.empty() || session.call.empty() ? "" : ", ";
  return str_cat("; its last known operation, ", seconds_text(now - session.operation_at),
                 " ago: ", session.operation, between, session.call);
}

void MembershipLeader::fail_generation(const TaskId& task, const Status& status) {
  if (!failure_.ok()) return;  // later failures are consequences of the first
  STRATA_LOG(kWarning) << status.message();
  failure_ = status;
  suspicions_.clear();
  // The waiting tasks get the error from kFailed; their requests are dropped without replies.
  Outbox discarded;
  store_.clear(status, discarded);
  barriers_.clear(status, discarded);
  ControlMessage failed;
  failed.kind = MessageKind::kFailed;
  failed.generation = generation_;
  failed.code = status.code();
  failed.name = task.to_string();
  failed.value = status.message();
  broadcast(failed);
  finish_leaving();
}

// A task that has lost a peer closes its other connections, too. So of several reports the most
// likely cause is the one about a task that has itself reported nothing, or that has reported the
// reporter (a cut link).
MembershipLeader::Suspicion MembershipLeader::likely_cause() const {
  const auto says_of = [&](const TaskId& reporter, const TaskId* task) {
    return std::ranges::any_of(suspicions_, [&](const Suspicion& each) {
      return each.reporter == reporter && (task == nullptr || each.task == *task);
    });
  };
  const auto doubt = [&](const Suspicion& each) {
    if (!says_of(each.task, nullptr)) return 0;
    return says_of(each.task, &each.reporter) ? 1 : 2;
  };
  return *std::ranges::min_element(suspicions_, {}, doubt);  // the first of the best
}

void MembershipLeader::broadcast(const ControlMessage& message) {
  for (const auto& active : active_) outbox_.push_back({active.second, message});
}

MembershipLeader::Gathering MembershipLeader::gathering() const {
  Gathering result;
  auto& [absent, present] = result;
  for (const TaskId& member : options_.members) {
    const bool here = std::ranges::any_of(sessions_, [&](const auto& entry) {
      return entry.second.task == member && entry.second.joining;
    });
    if (here) {
      ++present;
      continue;
    }
    absent += (absent.empty() ? "" : ", ") + describe(member);
    if (refused_.contains(member)) absent += str_cat(" (refused: ", refused_.at(member), ")");
    if (active_.contains(member)) absent += " (still in the generation before)";
  }
  return result;
}

void MembershipLeader::expire_joins(TimePoint now) {
  const auto [absent, present] = gathering();
  // No process can begin without the leader: where it gives up, all hear why.
  const auto leader = sessions_.find(kLeaderSession);
  const bool all = leader != sessions_.end() && leader->second.joining &&
                   leader->second.joining->deadline <= now;
  for (auto& entry : sessions_) {
    auto& joining = entry.second.joining;
    if (!joining || (joining->deadline > now && !all)) continue;
    joining->fail(outbox_, {ErrorCode::kDeadlineExceeded,
                            str_cat("[cluster] rendezvous: ", absent, " did not join within ",
                                    joining->timeout(), "; ", present, " of ",
                                    options_.members.size(), " tasks had joined")});
    joining.reset();
  }
}

/// In the leader's log; the others say that they wait for the leader (ControlLoop::wait).
void MembershipLeader::say_who_is_waited_for(TimePoint now) {
  const auto leader = sessions_.find(kLeaderSession);
  if (leader == sessions_.end() || !leader->second.joining) return gathering_notice_.reset();
  if (!gathering_notice_) {
    const auto say = [this] {
      const auto [absent, present] = gathering();
      return str_cat("[cluster] rendezvous: waits for ", absent, "; ", present, " of ",
                     options_.members.size(), " tasks have joined");
    };
    const PendingRequest& joining = *leader->second.joining;
    gathering_notice_.emplace(say, joining.deadline - std::chrono::milliseconds(joining.timeout_ms),
                              joining.deadline);
  }
  gathering_notice_->look(now);
}

void MembershipLeader::tick(TimePoint now) {
  (void)detector_.tick(now);
  for (const uint64_t id : detector_.lost(now)) {
    const std::string how = str_cat("was silent for ", seconds_text(detector_.silence(id, now)));
    detector_.remove(id);
    dropped_.emplace_back(id, Status(ErrorCode::kUnavailable, str_cat("[cluster] it ", how)));
    closed(id, how, now);
  }
  if (!suspicions_.empty() && suspicions_.front().decide_at <= now) {
    const Suspicion cause = likely_cause();
    fail_generation(cause.task, {ErrorCode::kUnavailable,
                                 str_cat("[cluster] ", describe(cause.reporter), " lost ",
                                         describe(cause.task), ": ", cause.what)});
  }
  store_.expire(now, outbox_);
  barriers_.expire(now, outbox_);
  expire_joins(now);
  say_who_is_waited_for(now);
  if (leader_leaves_ && leader_leaves_->deadline <= now) {
    std::string still;
    for (const auto& active : active_)
      still += (still.empty() ? "" : ", ") + describe(active.first);
    STRATA_LOG(kWarning) << "[cluster] shutdown: " << still << " did not end within "
                         << leader_leaves_->timeout() << "; the leader leaves without them";
    active_.clear();
    finish_leaving();
  }
}

TimePoint MembershipLeader::next_event() const {
  TimePoint next =
      std::min({store_.next_deadline(), barriers_.next_deadline(), detector_.next_loss()});
  for (const auto& [id, session] : sessions_) {
    if (session.joining) next = std::min(next, session.joining->deadline);
  }
  for (const Suspicion& each : suspicions_) next = std::min(next, each.decide_at);
  if (leader_leaves_) next = std::min(next, leader_leaves_->deadline);
  if (gathering_notice_) next = std::min(next, gathering_notice_->next());
  return next;
}

}  // namespace strata::cluster
