// What a task asks of its leader, and how it waits for the answer.
#include <algorithm>
#include <utility>

#include "cluster/control_loop.h"
#include "core/wait_notice.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::cluster {
namespace {

constexpr auto kGrace = std::chrono::seconds(2);  // for an answer that says "deadline exceeded"

}  // namespace

uint64_t ControlLoop::request(ControlMessage message, PendingCall& pending,
                              wire::Deadline deadline) {
  const MutexLock lock(mutex_);
  pending.kind = message.kind;
  pending.name = message.name;
  const bool of_generation =
      message.kind != MessageKind::kJoin && message.kind != MessageKind::kLeave;
  if (of_generation) failure_.throw_if_error();
  STRATA_CHECK(membership_ || attached(), kUnavailable, "[cluster] ", options_.leader.to_string(),
               ", the leader, has disconnected");
  message.request = next_request_++;
  message.generation = generation_;
  message.operation = operation_;
  message.timeout_ms =
      static_cast<uint64_t>(std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count());
  const uint64_t number = message.request;
  pending_calls_[number] = &pending;
  if (membership_) {
    membership_->received(kLeaderSession, message, Clock::system().now());
    deliver();
  } else {
    send(kLeaderSession, message);
  }
  return number;
}

std::string ControlLoop::waits_for(const PendingCall& pending) const {
  const auto line = [&](std::string_view call, std::string_view whom) {
    return str_cat("[cluster] ", call, ": ", options_.task.to_string(), " waits for ", whom);
  };
  switch (pending.kind) {
    case MessageKind::kJoin:
      return line("rendezvous", str_cat("the tasks that have not joined ",
                                        options_.leader.to_string(), ", the leader, yet"));
    case MessageKind::kBarrier:
      return line(str_cat("barrier '", pending.name, "'"), "the other tasks to arrive");
    case MessageKind::kGet:
      return line(str_cat("get '", pending.name, "'"), "a task to set it");
    case MessageKind::kLeave:
      return line("shutdown", "the other tasks to leave");
    default:
      return line("call", str_cat(options_.leader.to_string(), ", the leader, to answer"));
  }
}

void ControlLoop::wait(PendingCall& pending, uint64_t number, wire::Deadline deadline) {
  const auto last = deadline.time() + kGrace;
  strata::detail::WaitNotice notice([&] { return waits_for(pending); }, Clock::system().now(),
                                    deadline.time());
  while (!pending.done.load(std::memory_order_acquire)) {
    TimePoint until;
    {
      const MutexLock lock(mutex_);
      until = std::min({last, next_event(Clock::system().now()), notice.next()});
    }
    (void)transport_.wait_until(
        [&] { return pending.done.load(std::memory_order_acquire) || poll(); },
        wire::Deadline::at(until));
    handle_arrivals();
    // The leader's own log names those that it has not met.
    const bool known_here = pending.kind == MessageKind::kJoin && leads();
    // What may take for ever is no wait for a peer: whether one is asked to stop, say.
    const bool expected = deadline.left() < std::chrono::hours(24);
    if (expected && !known_here && !pending.done.load()) notice.look(Clock::system().now());
    if (Clock::system().now() < last) continue;
    const MutexLock lock(mutex_);
    if (pending_calls_.erase(number) == 0) continue;  // done just now
    ControlMessage cancel;
    cancel.kind = MessageKind::kCancel;
    cancel.request = number;
    if (membership_) {
      membership_->received(kLeaderSession, cancel, Clock::system().now());
    } else {
      send(kLeaderSession, cancel);
    }
    throw Error(ErrorCode::kDeadlineExceeded, str_cat("[cluster] ", options_.leader.to_string(),
                                                      ", the leader, did not answer in time"));
  }
}

ControlMessage ControlLoop::call(ControlMessage message, wire::Deadline deadline) {
  PendingCall pending;
  const uint64_t number = request(std::move(message), pending, deadline);
  handle_arrivals();  // at the leader the request may have answered others
  wait(pending, number, deadline);
  pending.status.throw_if_error();
  return std::move(pending.answer);
}

void ControlLoop::join(const std::string& address, bool exclude_lost, wire::Deadline deadline) {
  ControlMessage message;
  message.kind = MessageKind::kJoin;
  message.value = options_.spec.to_json().dump();
  message.address = address;
  message.number = generation();
  message.flag = exclude_lost;
  (void)call(std::move(message), deadline);
}

void ControlLoop::leave(wire::Deadline deadline) {
  {
    const MutexLock lock(mutex_);
    if (!membership_ && (leader_closing_ || !failure_.ok())) return;
  }
  try {
    ControlMessage message;
    message.kind = MessageKind::kLeave;
    (void)call(std::move(message), deadline);
  } catch (const Error& error) {
    STRATA_LOG(kWarning) << "[cluster] shutdown: " << error.what();
  }
}

void ControlLoop::post(ControlMessage message) {
  {
    const MutexLock lock(mutex_);
    message.generation = generation_;
    message.operation = operation_;
    if (membership_) {
      membership_->received(kLeaderSession, message, Clock::system().now());
    } else {
      send(kLeaderSession, message);
    }
  }
  handle_arrivals();
}

bool ControlLoop::wait_for_failure(wire::Deadline deadline) {
  while (failure().ok() && !deadline.passed()) {
    TimePoint until;
    {
      const MutexLock lock(mutex_);
      until = std::min(deadline.time(), next_event(Clock::system().now()));
    }
    const std::stop_token failed = this->failed();
    (void)transport_.wait_until([&] { return failed.stop_requested() || poll(); },
                                wire::Deadline::at(until));
    handle_arrivals();
  }
  return !failure().ok();
}

}  // namespace strata::cluster
