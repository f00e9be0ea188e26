#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

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

    std::mutex mutex;
    std::condition_variable to_thread, to_callers;
    // The rest is under `mutex`.
    std::string pending;  // whole records
    int64_t pending_events = 0;
    int64_t writing_bytes = 0;  // what the thread holds
    uint64_t added = 0;         // events, ever
    uint64_t written = 0;       // of them, in the file
    uint64_t flush_until = 0;   // events that a thread waits for
    bool closing = false;
    bool ended = false;  // the thread does nothing any more
    Status status;
  };

  static void write_loop(State& state);
  static bool must_write(const State& state);
  static void check_open(const State& state, const char* call);
  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, const char* call, Done done);

  std::shared_ptr<State> state_;
  std::mutex close_mutex_;
  Thread thread_;  // under `close_mutex_`
};

}  // namespace strata::summary::detail
