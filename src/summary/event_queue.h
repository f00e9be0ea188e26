#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "core/mutex.h"
#include "core/thread.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"

namespace strata::summary::detail {

struct EventQueueOptions {
  int64_t max_events;
  int64_t max_bytes;
  std::chrono::milliseconds interval;
  std::chrono::milliseconds timeout;
};

/// Records on their way into a file, and the thread that writes them.
class EventQueue {
 public:
  EventQueue(std::unique_ptr<WritableFile> file, const std::string& path,
             const EventQueueOptions& options);
  /// Closes quietly.
  ~EventQueue();

  /// Each throws the error of the thread, or kDeadlineExceeded; `call` names the caller.
  void add(const char* call, std::string_view payload);
  void flush(const char* call);
  void close();

 private:
  // Shared with the thread, which outlives the handle if the disk hangs.
  struct State {
    EventQueueOptions options;
    std::string path;
    std::unique_ptr<WritableFile> file;  // the thread's alone

    Mutex mutex;
    ConditionVariable to_thread, to_callers;
    std::string pending STRATA_GUARDED_BY(mutex);  // whole records
    int64_t pending_events STRATA_GUARDED_BY(mutex) = 0;
    int64_t writing_bytes STRATA_GUARDED_BY(mutex) = 0;  // what the thread holds
    uint64_t added STRATA_GUARDED_BY(mutex) = 0;         // events, ever
    uint64_t written STRATA_GUARDED_BY(mutex) = 0;       // of them, in the file
    uint64_t flush_until STRATA_GUARDED_BY(mutex) = 0;   // events that a thread waits for
    bool closing STRATA_GUARDED_BY(mutex) = false;
    bool ended STRATA_GUARDED_BY(mutex) = false;  // the thread does nothing any more
    Status status STRATA_GUARDED_BY(mutex);
  };

  static void write_loop(State& state);
  static bool must_write(const State& state) STRATA_REQUIRES(state.mutex);
  static void check_open(const State& state, const char* call) STRATA_REQUIRES(state.mutex);
  template <class Done>
  static void wait(State& state, MutexLock& lock, const char* call, Done done)
      STRATA_REQUIRES(state.mutex);

  std::shared_ptr<State> state_;
  Mutex close_mutex_;
  Thread thread_ STRATA_GUARDED_BY(close_mutex_);
};

}  // namespace strata::summary::detail
