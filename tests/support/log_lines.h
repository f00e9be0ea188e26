#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "strata/core/log.h"

namespace strata::test {

/// Collects what is logged while it lives. Threads: any.
class LogLines {
 public:
  LogLines()
      : before_(set_log_sink([this](const LogRecord& record) {
          const MutexLock lock(mutex_);
          lines_.emplace_back(record.message);
          changed_.notify_all();
        })) {}
  ~LogLines() { set_log_sink(before_); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  /// Waits for a line that has all `parts`, a minute at most. @return that line, or "".
  std::string await(const std::vector<std::string>& parts) {
    MutexLock lock(mutex_);
    const auto has_all = [&](const std::string& line) {
      return std::ranges::all_of(
          parts, [&](const std::string& part) { return line.find(part) != std::string::npos; });
    };
    std::string found;
    (void)changed_.wait_for(lock, std::chrono::minutes(1), [&]() STRATA_REQUIRES(mutex_) {
      const auto line = std::ranges::find_if(lines_, has_all);
      if (line == lines_.end()) return false;
      found = *line;
      return true;
    });
    return found;
  }

  /// All lines so far, for messages.
  std::string text() {
    const MutexLock lock(mutex_);
    std::string all;
    for (const std::string& line : lines_) all += line + '\n';
    return all;
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::string> lines_ STRATA_GUARDED_BY(mutex_);
  const LogSink before_;
};

}  // namespace strata::test
