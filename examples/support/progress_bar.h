#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

namespace examples {

/// One epoch's progress on stdout: on a terminal a bar that is drawn anew ten times a second,
/// elsewhere nothing until `finish`. Destroyed early (an error, Ctrl-C) it leaves the terminal as
/// it was.
class ProgressBar {
 public:
  ProgressBar(std::string title, int64_t steps)
      : title_(std::move(title)), steps_(steps), terminal_(isatty(STDOUT_FILENO) != 0) {
    if (terminal_) std::fputs("\033[?25l", stdout);  // hides the cursor
  }
  ~ProgressBar() {
    if (!finished_ && terminal_ && step_ > 0) std::fputs("\n", stdout);
    if (terminal_) std::fputs("\033[?25h", stdout);  // shows it
    std::fflush(stdout);
  }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// After each step.
  void advance() {
    ++step_;
    const auto now = Clock::now();
    if (!terminal_ || now - drawn_ < std::chrono::milliseconds(100)) return;
    drawn_ = now;
    constexpr int64_t kWidth = 30;
    const int64_t filled = std::min(kWidth, step_ * kWidth / std::max<int64_t>(steps_, 1));
    const std::string bar = std::string(static_cast<size_t>(filled), '=') +
                            std::string(static_cast<size_t>(kWidth - filled), '.');
    std::printf("\r%s [%s] %lld/%lld\033[K", title_.c_str(), bar.c_str(),
                static_cast<long long>(step_), static_cast<long long>(steps_));
    std::fflush(stdout);
  }

  /// Replaces the bar by a line with `result`.
  void finish(const std::string& result) {
    finished_ = true;
    std::printf("%s%s: %s\n", terminal_ ? "\r\033[K" : "", title_.c_str(), result.c_str());
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;

  std::string title_;
  int64_t steps_;
  bool terminal_;
  bool finished_ = false;
  int64_t step_ = 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_ = {};
};

}  // namespace examples
