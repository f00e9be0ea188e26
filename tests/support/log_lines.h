#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "strata/core/log.h"

namespace strata::test {

/// Collects what is logged while it lives. Threads: any.
class LogLines {
 public:
  LogLines()
      : before_(set_log_sink([this](const LogRecord& record) {
          const std::lock_guard lock(mutex_);
          lines_.emplace_back(record.message);
          changed_.notify_all();
        })) {}
  ~LogLines() { set_log_sink(before_); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  /// Waits for a line that has all `parts`, a minute at most. @return that line, or "".
  std::string await(const std::vector<std::string>& parts) {
    std::unique_lock lock(mutex_);
    const auto has_all = [&](const std::string& line) {
      return std::ranges::all_of(
          parts, [&](const std::string& part) { return line.find(part) != std::string::npos; });
    };
    std::string found;
    (void)changed_.wait_for(lock, std::chrono::minutes(1), [&] {
      const auto line = std::ranges::find_if(lines_, has_all);
      if (line == lines_.end()) return false;
      found = *line;
      return true;
    });
    return found;
  }

  /// All lines so far, for messages.
  std::string text() {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (const std::string& line : lines_) all += line + '\n';
    return all;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
  const LogSink before_;
};

}  // namespace strata::test
