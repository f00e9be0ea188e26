#include "wire/session/session.h"

#include <algorithm>
#include <new>
#include <utility>

#include "core/mutex.h"
#include "strata/core/log.h"

namespace strata::wire {

Session::Session(Hello peer, Address address, std::unique_ptr<Stream> stream,
                 const SessionOptions& options, std::shared_ptr<ProgressEngine> progress)
    : Connection(std::move(peer), std::move(address)),
      options_(options),
      progress_(std::move(progress)),
      stream_(std::move(stream)),
      staging_(kStaging),
      send_window_left_(options.send_window),
      random_(options.shuffle_seed.value_or(0)) {}

Session::~Session() {
  MutexLock lock(mutex_);
  fail_locked(ErrorCode::kCancelled, "the connection was destroyed", true);
  for (ReceiveOperation* cancelled : posted_receives_.all()) cancelled->drop_reference();
  unlock_and_notify(lock);
}

void Session::start(uint64_t key, bool hung_up) {
  key_ = key;
  hung_up_ = hung_up;
  progress_->set(key, weak_from_this());
}

Status Session::status() const {
  const MutexLock lock(mutex_);
  return status_;
}

ConnectionCounts Session::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

void Session::unlock_and_notify(MutexLock& lock) {
  const bool notify = std::exchange(notify_pending_, false);
  lock.unlock();
  if (notify) progress_->notify();
}

bool Session::ready(bool& reschedule, bool hung_up) {
  MutexLock lock(mutex_);
  if (!alive()) return false;
  blocked_ = false;
  hung_up_ |= hung_up;
  bool read = false;
  bool wrote = false;
  try {
    read = read_some(reschedule);
    if (alive() && !read && write_failure_)
      fail_locked(write_failure_->code(), write_failure_->message(), false);
    wrote = alive() && !write_failure_ && write_some();
  } catch (const std::bad_alloc&) {
    // Must not reach the thread that happens to lead.
    fail_locked(ErrorCode::kResourceExhausted, "out of memory for its messages", true);
  }
  if (wrote && closing_) notify_pending_ = true;
  if (alive() && (write_failure_ || (!blocked_ && !all_sent()))) reschedule = true;
  unlock_and_notify(lock);
  return read || wrote;
}

template <typename Operation>
void Session::finish(Operation& operation, Status status) {
  operation.end(std::move(status));
  notify_pending_ = true;
  operation.drop_reference();
}

template void Session::finish(SendOperation&, Status);
template void Session::finish(ReceiveOperation&, Status);

// Does not use the operation's describe(), which locks a session that may be being destroyed.
template <typename Operation>
void Session::finish_failed(Operation& operation, ErrorCode code, std::string_view why) {
  constexpr bool kIsSend = std::is_same_v<Operation, SendOperation>;
  finish(operation,
         Status(code, str_cat("[wire] ", kIsSend ? "send" : "receive", " of ", operation.size,
                              " bytes (channel ", operation.tag.channel, ", id ", operation.tag.id,
                              ") ", kIsSend ? "to " : "from ", name(), ": ", why)));
}

template void Session::finish_failed(SendOperation&, ErrorCode, std::string_view);
template void Session::finish_failed(ReceiveOperation&, ErrorCode, std::string_view);

std::vector<SendOperation*> Session::pending_sends() const {
  std::vector<SendOperation*> sends;
  for (const QueuedSend& each : send_queue_)
    if (each.send != nullptr) sends.push_back(each.send);
  for (const auto& [message, send] : active_sends_) sends.push_back(send);
  for (const OutgoingFrame& frame : outgoing_)
    if (frame.send != nullptr) sends.push_back(frame.send);
  for (const UnflushedSend& each : unflushed_sends_) sends.push_back(each.send);
  std::ranges::sort(sends);
  sends.erase(std::unique(sends.begin(), sends.end()), sends.end());
  return sends;
}

void Session::fail_locked(ErrorCode code, const std::string& why, bool tell) {
  if (!alive()) return;
  why_ = why;
  status_ = Status(code, str_cat("[wire] ", name(), ": ", why));
  notify_pending_ = true;
  if (tell) send_go_away(code, why);
  stream_->close();
  progress_->remove(key_);

  for (ReceiveOperation* receive : posted_receives_.all()) {
    if (receive->done()) continue;  // cancelled; released by the destructor
    posted_receives_.remove(receive);
    finish_failed(*receive, code, why);
  }
  current_ = nullptr;
  destination_ = nullptr;
  unfinished_.clear();
  for (size_t i = incoming_.size(); i-- > 0;) {
    Incoming& incoming = *incoming_[i];
    ReceiveOperation* receive = std::exchange(incoming.receive, nullptr);
    if (receive != nullptr) finish_failed(*receive, code, why);
    const bool arrived_whole = incoming.arrived == incoming.total && !incoming.aborted;
    if (!arrived_whole || failed_here_) {
      unexpected_messages_.remove(&incoming);
      release(incoming);
    }
  }
  const std::vector<SendOperation*> sends = pending_sends();
  urgent_.clear();
  send_queue_.clear();
  cleared_sends_.clear();
  outgoing_.clear();
  unflushed_sends_.clear();
  uncleared_sends_ = {};
  active_sends_.clear();
  for (const PeerReceive* peer_receive : peer_receives_.all()) delete peer_receive;
  peer_receives_ = {};
  for (SendOperation* send : sends) {
    if (send->done()) {
      send->drop_reference();
    } else {
      finish_failed(*send, code, why);
    }
  }
  if (failed_here_) control_messages_.clear();
  STRATA_VLOG(5) << status_.message();
}

// Only if it can be written at once, and not after half a frame.
void Session::send_go_away(ErrorCode code, std::string_view why) {
  if (ended_ || (!outgoing_.empty() && outgoing_.front().written > 0)) return;
  ended_ = true;
  FrameHeader header;
  header.kind = FrameKind::kGoAway;
  header.id = static_cast<uint32_t>(code);
  const std::string_view told = why.substr(0, kMaxReason);
  header.part = static_cast<uint32_t>(told.size());
  seal(header);
  const iovec parts[] = {{.iov_base = &header, .iov_len = sizeof header},
                         {.iov_base = const_cast<char*>(told.data()), .iov_len = told.size()}};
  const auto result = stream_->write(parts);
  if (result.outcome == Stream::Outcome::kMoved && result.bytes == sizeof header + told.size() &&
      stream_->flush() == Stream::Outcome::kMoved) {
    stream_->end();
  }
}

void Session::fail(const Status& status) {
  MutexLock lock(mutex_);
  STRATA_CHECK(!status.ok(), kInvalidArgument, "[wire] fail: got an ok status for ", name(),
               "; expected an error");
  if (alive()) {
    failed_here_ = true;
    fail_locked(status.code(), status.message(), true);
  }
  unlock_and_notify(lock);
}

const std::string* Session::channel_failure(uint32_t channel) const {
  if (failed_channels_.empty()) return nullptr;
  const auto found = failed_channels_.find(channel);
  return found == failed_channels_.end() ? nullptr : &found->second;
}

void Session::fail_channel(uint32_t channel, const std::string& why) {
  if (!failed_channels_.emplace(channel, why).second) return;
  for (ReceiveOperation* receive : posted_receives_.all()) {
    if (receive->tag.channel != channel) continue;
    posted_receives_.remove(receive);
    if (receive->done()) {
      receive->drop_reference();
    } else {
      finish_failed(*receive, ErrorCode::kFailedPrecondition, why);
    }
  }
  for (size_t i = incoming_.size(); i-- > 0;) {
    Incoming& incoming = *incoming_[i];
    if (incoming.tag.channel != channel || incoming.dropped) continue;
    ReceiveOperation* receive = std::exchange(incoming.receive, nullptr);
    if (receive != nullptr) finish_failed(*receive, ErrorCode::kFailedPrecondition, why);
    unexpected_messages_.remove(&incoming);
    drop(incoming);
  }
  for (SendOperation* send : pending_sends()) {
    if (send->tag.channel != channel || send->done()) continue;
    send->add_reference();
    abort_send(*send);
    finish_failed(*send, ErrorCode::kFailedPrecondition, why);
  }
}

void Session::close(Deadline deadline) {
  {
    MutexLock lock(mutex_);
    if (!alive() || closing_) return;
    closing_ = true;
    for (ReceiveOperation* receive : posted_receives_.all()) {
      if (receive->done()) continue;
      posted_receives_.remove(receive);
      finish_failed(*receive, ErrorCode::kCancelled, "the connection was closed here");
    }
    for (size_t i = incoming_.size(); i-- > 0;) {
      ReceiveOperation* receive = std::exchange(incoming_[i]->receive, nullptr);
      if (receive == nullptr) continue;
      drop(*incoming_[i]);
      finish_failed(*receive, ErrorCode::kCancelled, "the connection was closed here");
    }
    write_now();
    unlock_and_notify(lock);
  }
  const auto when = [this](auto condition) {
    return [this, condition] {
      const MutexLock lock(mutex_);
      return !alive() || condition();
    };
  };
  const std::stop_token never;
  progress_->wait_until(when([this]() STRATA_REQUIRES(mutex_) { return all_sent(); }), deadline,
                        never);
  {
    MutexLock lock(mutex_);
    for (SendOperation* send : pending_sends()) {
      if (send->done()) continue;
      send->add_reference();
      abort_send(*send);
      finish_failed(*send, ErrorCode::kCancelled, "the connection was closed here");
    }
    if (alive() && !ended_) {
      add_urgent(FrameKind::kGoAway, {}, 0);
      ended_ = true;
      write_now();
    }
    unlock_and_notify(lock);
  }
  progress_->wait_until(when([this]() STRATA_REQUIRES(mutex_) { return all_sent(); }), deadline,
                        never);
  {
    const MutexLock lock(mutex_);
    if (alive() && all_sent()) stream_->end();
  }
  progress_->wait_until(when([this]() STRATA_REQUIRES(mutex_) { return peer_ended_; }), deadline,
                        never);
  MutexLock lock(mutex_);
  fail_locked(ErrorCode::kCancelled, "the connection was closed here", false);
  unlock_and_notify(lock);
}

void Session::do_send_message(uint32_t channel, std::string_view text) {
  MutexLock lock(mutex_);
  status_.throw_if_error();
  STRATA_CHECK(!closing_, kCancelled, "[wire] ", name(), ": the connection was closed here");
  STRATA_CHECK(control_bytes_to_send_ + text.size() <= kMaxControlBytes, kResourceExhausted,
               "[wire] send_message: ", control_bytes_to_send_,
               " bytes of control messages wait to be sent to ", name(),
               "; expected the peer to receive them");
  control_bytes_to_send_ += text.size();
  send_queue_.push_back(
      {.send = nullptr, .control = {.channel = channel, .text = std::string(text)}});
  write_now();
  unlock_and_notify(lock);
}

std::optional<std::string> Session::do_try_receive_message(uint32_t channel) {
  const MutexLock lock(mutex_);
  const auto found = control_messages_.find(channel);
  if (found != control_messages_.end()) {
    std::string text = std::move(found->second.front());
    found->second.pop_front();
    if (found->second.empty()) control_messages_.erase(found);
    control_bytes_ -= text.size() + kMessageCost;
    return text;
  }
  status_.throw_if_error();
  return std::nullopt;
}

std::string Session::do_receive_message(uint32_t channel, Deadline deadline, std::stop_token stop) {
  std::optional<std::string> text;
  const bool arrived = progress_->wait_until(
      [&] { return (text = do_try_receive_message(channel)).has_value(); }, deadline, stop);
  if (arrived) return std::move(*text);
  STRATA_CHECK(!stop.stop_requested(), kCancelled,
               "[wire] receive_message: stopped waiting for a message (channel ", channel,
               ") from ", name());
  strata::detail::throw_error(
      ErrorCode::kDeadlineExceeded,
      str_cat("[wire] receive_message: the deadline passed before a message (channel ", channel,
              ") came from ", name()));
}

}  // namespace strata::wire
