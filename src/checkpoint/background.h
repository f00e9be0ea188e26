#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "strata/core/error.h"
#include "strata/core/thread.h"

namespace strata::checkpoint {

/// One job at a time on a thread of the lowest priority: it takes the processor's idle time, and
/// what the training leaves it, about a 70th.
class Background {
 public:
  Background() = default;
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  bool busy() const;
  /// Returns when no job is left. @throws what the last one threw, once.
  void wait();
  /// The same, leaving an error for `wait`.
  void wait_quietly();
  /// @pre not busy.
  void start(std::function<void()> job);

 private:
  void serve();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;
  bool running_ = false;
  bool stopping_ = false;
  Status status_;  // of jobs that nobody has waited for
  Thread thread_;
};

}  // namespace strata::checkpoint
