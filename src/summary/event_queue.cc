#include "summary/event_queue.h"

#include <utility>

#include "core/record_format.h"
#include "strata/core/log.h"

namespace strata::summary::detail {

EventQueue::EventQueue(std::unique_ptr<WritableFile> file, const std::string& path,
                       const EventQueueOptions& options)
    : state_(std::make_shared<State>()) {
  state_->options = options;
  state_->path = path;
  state_->file = std::move(file);
  thread_ = Thread("strata/summary", [state = state_] { write_loop(*state); });
}

EventQueue::~EventQueue() {
  try {
    close();
  } catch (const std::exception& error) {
    STRATA_LOG(kWarning) << error.what();
  }
}

bool EventQueue::must_write(const State& state) {
  return state.closing || state.pending_events > state.options.max_events ||
         state.flush_until > state.written ||
         static_cast<int64_t>(state.pending.size()) > state.options.max_bytes / 2;
}

void EventQueue::write_loop(State& state) {
  MutexLock lock(state.mutex);
  std::string records;
  while (state.status.ok() && !(state.closing && state.pending.empty())) {
    state.to_thread.wait_for(lock, state.options.interval,
                             [&]() STRATA_REQUIRES(state.mutex) { return must_write(state); });
    if (state.pending.empty()) continue;
    records.clear();
    records.swap(state.pending);
    const int64_t events = std::exchange(state.pending_events, 0);
    state.writing_bytes = static_cast<int64_t>(records.size());
    lock.unlock();
    Status status;
    try {
      state.file->append(std::as_bytes(std::span(records)));
    } catch (...) {
      status = Status::from_current_exception();
    }
    lock.lock();
    state.writing_bytes = 0;
    if (status.ok()) {
      state.written += static_cast<uint64_t>(events);
    } else {
      state.status = std::move(status);
    }
    state.to_callers.notify_all();
  }
  lock.unlock();
  Status status;
  try {
    state.file->close();
  } catch (...) {
    status = Status::from_current_exception();
  }
  lock.lock();
  if (state.status.ok()) state.status = std::move(status);
  state.ended = true;
  state.to_callers.notify_all();
}

void EventQueue::check_open(const State& state, const char* call) {
  state.status.throw_if_error();
  STRATA_CHECK(!state.closing, kFailedPrecondition, "[summary] ", call, ": ", state.path,
               ": got a call after close; expected none");
}

template <class Done>
void EventQueue::wait(State& state, MutexLock& lock, const char* call, Done done) {
  const bool in_time = state.to_callers.wait_for(lock, state.options.timeout, done);
  STRATA_CHECK(in_time, kDeadlineExceeded, "[summary] ", call, ": ", state.path, ": got ",
               state.pending.size() + static_cast<size_t>(state.writing_bytes),
               " bytes that were not written within ", state.options.timeout.count(),
               " ms; expected a disk that answers");
}

void EventQueue::add(const char* call, std::string_view payload) {
  State& state = *state_;
  MutexLock lock(state.mutex);
  const auto held = [&]() STRATA_REQUIRES(state.mutex) {
    return static_cast<int64_t>(state.pending.size()) + state.writing_bytes;
  };
  const auto size = static_cast<int64_t>(payload.size());
  // One that is larger than the queue is added when the queue is empty.
  const auto fits = [&]() STRATA_REQUIRES(state.mutex) {
    return held() == 0 || held() + size <= state.options.max_bytes;
  };
  if (!fits()) {
    state.flush_until = state.added;
    state.to_thread.notify_one();
    wait(state, lock, call,
         [&]() STRATA_REQUIRES(state.mutex) { return !state.status.ok() || fits(); });
  }
  check_open(state, call);
  strata::detail::append_record(payload, state.pending);
  ++state.pending_events;
  ++state.added;
  if (must_write(state)) state.to_thread.notify_one();
}

void EventQueue::flush(const char* call) {
  State& state = *state_;
  MutexLock lock(state.mutex);
  check_open(state, call);
  const uint64_t until = state.added;
  state.flush_until = until;
  state.to_thread.notify_one();
  wait(state, lock, call,
       [&]() STRATA_REQUIRES(state.mutex) { return !state.status.ok() || state.written >= until; });
  state.status.throw_if_error();
}

void EventQueue::close() {
  const MutexLock one_closes(close_mutex_);
  if (!thread_.joinable()) return;
  State& state = *state_;
  {
    MutexLock lock(state.mutex);
    state.closing = true;
    state.to_thread.notify_one();
    try {
      wait(state, lock, "close", [&]() STRATA_REQUIRES(state.mutex) { return state.ended; });
    } catch (...) {
      thread_.detach();  // it hangs in the file system, and holds all that it touches
      throw;
    }
  }
  thread_.join();
  const MutexLock lock(state.mutex);
  state.status.throw_if_error();
}

}  // namespace strata::summary::detail
