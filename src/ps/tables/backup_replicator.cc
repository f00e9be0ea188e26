#include "ps/tables/backup_replicator.h"

#include <algorithm>
#include <utility>

#include "ps/tables/message_blocks.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::ps {
namespace {

using Clock = std::chrono::steady_clock;

/// Of the liveness interval: so long a server whose line is broken tries to reach its backup,
/// while its workers wait. One that is there answers at once.
constexpr int kSettleWithin = 8;
constexpr uint64_t kHolder = 0;  // the peer that is watched: the one with the copies

}  // namespace

BackupReplicator::BackupReplicator(Options options)
    : options_(std::move(options)), detector_(cluster::table_timing(options_.liveness)) {
  connect(options_.liveness);
}

/// On a thread of its own: the server serves meanwhile.
void BackupReplicator::connect(std::chrono::nanoseconds limit) {
  connecting_ = Thread("strata-backup", [this, limit](const std::stop_token& stop) {
    std::shared_ptr<wire::Connection> connection;
    std::string why;
    try {
      connection = options_.transport->connect(options_.address, options_.hello,
                                               wire::Deadline::after(limit),
                                               {.peer = options_.holder}, stop);
    } catch (...) {
      why = Status::from_current_exception().message();
    }
    {
      const MutexLock lock(mutex_);
      fresh_ = std::move(connection);
      no_connection_ = std::move(why);
    }
    options_.transport->wake();
  });
}

void BackupReplicator::forward(std::shared_ptr<TableCall> call) {
  Request request = call->request();
  request.memory.clear();
  request.worker = call->worker();
  // A copy sends no replies. (A worker that makes a table may wait there as here.)
  if (request.kind != RequestKind::kCreate) request.flag = false;
  add({.number = 0, .request = std::move(request), .call = std::move(call)});
}

void BackupReplicator::forward_leave(const std::string& worker) {
  add({.number = 0, .request = {.kind = RequestKind::kLeave, .worker = worker}});
}

void BackupReplicator::add(Input input) {
  if (state_ == State::kUnreplicated || state_ == State::kDemoted) return;
  try {
    // Counted when it is kept: an answer that waited for one that is not would wait for good.
    inputs_.push_back(std::move(input));
    Input& kept = inputs_.back();
    {
      const MutexLock lock(mutex_);
      kept.number = ++forwarded_;
    }
    kept.request.id = static_cast<uint32_t>(kept.number);
    if (state_ == State::kReplicating) send(kept);
  } catch (...) {  // memory: the copy would lack this one
    run_unreplicated(Status::from_current_exception().message(), /*expected=*/false);
  }
}

void BackupReplicator::send(Input& input) {
  try {
    connection_->send_message(kTableChannel, encode(input.request));
  } catch (const Error&) {
    return;  // `tend` sees it
  }
  const wire::Tag tag = {.channel = kDataChannel, .id = input.request.id};
  const auto send_part = [&](const std::byte* from, size_t size) {
    for_each_message(size, [&](size_t offset, size_t bytes) {
      input.sends.push_back(connection_->send(tag, {from + offset, bytes}));
    });
  };
  if (input.request.rows > 0) {
    send_part(reinterpret_cast<const std::byte*>(input.call->rows()),
              input.request.rows * sizeof(int64_t));
  }
  if (!input.call) return;
  const PartSizes& sizes = input.call->data_sizes();
  for (size_t part = 0; part < sizes.size(); ++part) send_part(input.call->data(part), sizes[part]);
}

void BackupReplicator::pass(std::shared_ptr<wire::Connection> to, Reply reply) {
  {
    const MutexLock lock(mutex_);
    const bool decided = state_ == State::kUnreplicated || state_ == State::kDemoted;
    if (!decided && acknowledged_ < forwarded_) {
      held_.push_back({forwarded_, std::move(to), std::move(reply)});
      return;
    }
    reply = as_it_is_now(std::move(reply));
  }
  send_reply(*to, reply);
}

Reply BackupReplicator::as_it_is_now(Reply reply) const {
  if (state_ == State::kDemoted) {
    return {.id = reply.id, .code = ErrorCode::kUnavailable, .text = why_replaced()};
  }
  reply.unreplicated = state_ == State::kUnreplicated;
  reply.promoted = replaces_;
  return reply;
}

std::string BackupReplicator::why_replaced() const {
  return str_cat("[ps] ", options_.holder, " has taken the place of ", options_.hello.task);
}

void BackupReplicator::set_replaces() {
  const MutexLock lock(mutex_);
  replaces_ = true;
}

bool BackupReplicator::look() {
  if (connection_) {
    try {
      while (auto message = connection_->try_receive_message(kTableChannel)) {
        inbox_.push_back(std::move(*message));
      }
    } catch (const Error&) {
      return true;
    }
    if (!inbox_.empty()) return true;
  }
  const MutexLock lock(mutex_);
  return fresh_ != nullptr || !no_connection_.empty();
}

void BackupReplicator::tend() {
  std::shared_ptr<wire::Connection> fresh;
  std::string no_connection;
  {
    const MutexLock lock(mutex_);
    fresh = std::exchange(fresh_, nullptr);
    no_connection = std::exchange(no_connection_, {});
  }
  if (fresh) {
    connection_ = std::move(fresh);
    greet();
  }
  if (!no_connection.empty()) run_unreplicated(no_connection, /*expected=*/false);
  for (const std::string& message : std::exchange(inbox_, {})) {
    try {
      take(decode_reply(message));
    } catch (...) {
      const Status status = Status::from_current_exception();
      if (connection_) connection_->fail(status);
    }
    if (!connection_) return;
    detector_.heard(kHolder, Clock::now());
  }
  if (connection_) heartbeat();
  if (connection_ && !connection_->status().ok()) lost(connection_->status().message());
}

void BackupReplicator::greet() {
  const Clock::time_point now = Clock::now();
  detector_.add(kHolder, now);
  detector_.heartbeat_sent(now);
  try {
    connection_->send_message(
        kTableChannel,
        encode(Request{.kind = RequestKind::kBackup, .flag = state_ == State::kReconnecting}));
  } catch (const Error&) {  // `tend` sees it
  }
}

/// Id 0: of `greet`, or unasked.
void BackupReplicator::take(const Reply& reply) {
  switch (reply.code) {
    case ErrorCode::kOk:
      break;
    case ErrorCode::kAborted:
      return demote();
    case ErrorCode::kCancelled:
      return run_unreplicated("it has shut down", /*expected=*/true);
    default:
      return run_unreplicated(reply.text, /*expected=*/false);
  }
  if (reply.id != 0) return take_acknowledged(reply.id);
  if (state_ == State::kReconnecting) {
    return run_unreplicated("the line to it was broken, and its copies are behind",
                            /*expected=*/false);
  }
  {
    const MutexLock lock(mutex_);
    state_ = State::kReplicating;
  }
  STRATA_VLOG(4) << "[ps] " << options_.holder << " keeps a copy of " << options_.hello.task;
  for (Input& input : inputs_) send(input);
}

void BackupReplicator::take_acknowledged(uint32_t id) {
  std::vector<Held> ready;
  {
    const MutexLock lock(mutex_);
    while (!inputs_.empty() && acknowledged_ < forwarded_) {
      acknowledged_ = inputs_.front().number;
      inputs_.pop_front();
      if (static_cast<uint32_t>(acknowledged_) == id) break;
    }
    while (!held_.empty() && held_.front().number <= acknowledged_) {
      held_.front().reply = as_it_is_now(std::move(held_.front().reply));
      ready.push_back(std::move(held_.front()));
      held_.pop_front();
    }
  }
  for (const Held& each : ready) send_reply(*each.to, each.reply);
}

/// Signs of life, both ways.
void BackupReplicator::heartbeat() {
  const Clock::time_point now = Clock::now();
  try {
    while (connection_->try_receive_message(kHeartbeatChannel)) detector_.heard(kHolder, now);
    if (detector_.heartbeat_due(now)) {
      detector_.heartbeat_sent(now);
      connection_->send_message(kHeartbeatChannel, "");
    }
  } catch (const Error&) {
    return;  // `tend` sees it
  }
  if (!detector_.is_lost(kHolder, now)) return;
  const std::chrono::duration<double> silence = detector_.silence(kHolder, now);
  connection_->fail(Status(ErrorCode::kUnavailable, str_cat("silent for ", silence.count(), " s")));
}

void BackupReplicator::lost(const std::string& why) {
  connection_ = nullptr;
  inbox_.clear();
  if (state_ == State::kReconnecting) return run_unreplicated(why, /*expected=*/false);
  {
    const MutexLock lock(mutex_);
    state_ = State::kReconnecting;
  }
  STRATA_VLOG(4) << "[ps] " << options_.hello.task << ": the line to " << options_.holder
                 << " is broken: " << why;
  connect(options_.liveness / kSettleWithin);
}

void BackupReplicator::run_unreplicated(const std::string& why, bool expected) {
  if (!expected) {
    STRATA_LOG(kWarning) << "[ps] " << options_.hello.task << " continues without its backup "
                         << options_.holder << ": " << why
                         << ". If it is lost, too, start the job again from its last checkpoint";
  }
  end(State::kUnreplicated);
}

void BackupReplicator::demote() {
  STRATA_LOG(kWarning) << why_replaced()
                       << ", which a worker could not reach; it serves its tables no longer";
  end(State::kDemoted);
}

void BackupReplicator::end(State state) {
  connection_ = nullptr;
  inputs_.clear();
  std::deque<Held> held;
  {
    const MutexLock lock(mutex_);
    state_ = state;
    held = std::exchange(held_, {});
    for (Held& each : held) each.reply = as_it_is_now(std::move(each.reply));
  }
  for (const Held& each : held) send_reply(*each.to, each.reply);
}

}  // namespace strata::ps
