#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <functional>
#include <string>

#include "strata/core/error.h"

namespace strata::test {

/// What a call in a process of its own cost, and how it ended.
struct Cost {
  double cpu_seconds = 0;
  int64_t peak_mb = 0;  ///< Memory above what the process had at its start.
  std::string outcome;  ///< "" if it returned, an error's code and text, or how the process died.
};

/// Runs `call` in a child, which is killed after a minute.
inline Cost cost_of(const std::function<void()>& call) {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  int ends[2] = {};
  if (::pipe(ends) != 0) return {.outcome = "no pipe"};
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(60);
    std::string text;
    try {
      call();
    } catch (const Error& error) {
      text = std::string(error_code_name(error.code())) + ' ' + error.what();
    } catch (const std::exception& error) {
      text = error.what();
    }
    text.resize(std::min<size_t>(text.size(), 2000));  // a pipe takes that at once
    const ssize_t written = ::write(ends[1], text.data(), text.size());
    ::_exit(written < 0 ? 1 : 0);
  }
  ::close(ends[1]);
  Cost cost;
  char text[2048];
  for (ssize_t got; (got = ::read(ends[0], text, sizeof text)) > 0;) {
    cost.outcome.append(text, static_cast<size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  rusage usage = {};
  ::wait4(pid, &status, 0, &usage);
  if (WIFSIGNALED(status)) cost.outcome = str_cat("killed by signal ", WTERMSIG(status));
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  cost.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  const int64_t before_kb = resident * ::sysconf(_SC_PAGESIZE) / 1024;
  cost.peak_mb = (usage.ru_maxrss - before_kb) / 1024;
  return cost;
}

/// Fails unless `call` is refused with `code` and a text that holds `part`, at the cost of a second
/// of the processor and 64 MB of memory at most.
inline void expect_refused_cheaply(const std::function<void()>& call, ErrorCode code,
                                   const std::string& part) {
  const Cost cost = cost_of(call);
  EXPECT_TRUE(cost.outcome.starts_with(std::string(error_code_name(code)) + ' ')) << cost.outcome;
  EXPECT_NE(cost.outcome.find(part), std::string::npos) << cost.outcome;
  EXPECT_LT(cost.cpu_seconds, 1.0) << cost.outcome;
  EXPECT_LT(cost.peak_mb, 64) << cost.outcome;
}

}  // namespace strata::test
