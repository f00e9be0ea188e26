#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "core/mutex.h"
#include "core/thread.h"
#include "strata/wire/deadline.h"
#include "wire/transport.h"

namespace strata::ps {

/// Keeps a transport moving, and what came over it handled, while no thread waits there. A waiting
/// thread does both itself, so that an answer costs no switch between threads: then this thread
/// looks once a millisecond whether it is needed, and takes over when it is.
class ProgressThread {
 public:
  /// @param work  Handles what has come and what is due, without waiting. Called by any thread that
  ///   waits, often, and at least every kTick; must be cheap, lock for itself, and not throw.
  ProgressThread(std::string name, wire::Transport& transport, std::function<void()> work);
  ~ProgressThread() { stop(); }
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  /// Works until `done()`. @return false at the deadline, or when stop was requested.
  /// Threads: any.
  bool wait(const std::function<bool()>& done, wire::Deadline deadline, std::stop_token stop = {});

  /// Ends the thread; `work` is not called by it any more.
  void stop();

  static constexpr std::chrono::milliseconds kTick{10};

 private:
  void run(const std::stop_token& stop);
  void enter();
  void leave() STRATA_EXCLUDES(mutex_);

  wire::Transport& transport_;
  const std::function<void()> work_;
  std::atomic<int> waiting_{0};
  std::atomic<uint64_t> waits_{0};     // so many have begun
  std::atomic<bool> leading_{false};   // the thread waits on the transport
  std::atomic<bool> sleeping_{false};  // the thread waits for `leave`
  Mutex mutex_;
  std::condition_variable_any wake_;
  Thread thread_;
};

}  // namespace strata::ps
