#pragma once

#include <chrono>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>

#include "strata/core/export.h"

namespace strata {

/// The importance of a line. STRATA_VLOG lines are 1 (user call), 2 (keras), 3 (distribute), 4
/// (collective, ps), 5 (wire).
enum class LogLevel { kError = -2, kWarning = -1, kInfo = 0 };

/// One line on its way to the sink. Views live as long as the call.
struct LogRecord {
  int verbosity;  ///< a LogLevel's value, or the level of STRATA_VLOG
  std::chrono::system_clock::time_point time;
  std::string_view task;    ///< `job:task/world`, empty in a single process
  std::string_view device;  ///< of the logging thread, empty outside replicas
  std::string_view file;    ///< without its folder
  int line;
  std::string_view message;
};

/// `W 2026-01-31 12:00:00.000000 worker:1/4 cpu:0 ring.cc:42] message`, without a line end; times
/// are UTC. Further lines of the message are indented, its control characters read `\xNN`.
STRATA_API std::string format_log_record(const LogRecord& record);

using LogSink = std::function<void(const LogRecord&)>;

/// Replaces where lines go; an empty function restores the default, one write to stderr a line.
/// The sink is called by one thread at a time, and must neither log nor throw.
/// @return the sink before, empty for the default.
/// Threads: any.
STRATA_API LogSink set_log_sink(LogSink sink);

/// Shows lines up to `verbosity` (a LogLevel's value, or 1-5 for STRATA_VLOG). The default is
/// kWarning, or the environment's STRATA_LOG_LEVEL: `error`, `warning`, `info`, or a number.
/// Threads: any.
STRATA_API void set_log_verbosity(int verbosity);
STRATA_API int log_verbosity();

/// Adds `job:task/world` to every later line of this process; `device` to every later line of this
/// thread.
STRATA_API void set_log_task(std::string task);
STRATA_API void set_thread_log_device(std::string device);

namespace detail {

/// The verbosity of STRATA_LOG_LEVEL's `text`; kWarning for null, empty or unknown text.
STRATA_API int parse_log_level(const char* text);

class STRATA_API LogLine {
 public:
  LogLine(int verbosity, const char* file, int line);
  ~LogLine();  // hands the line to the sink
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;

  std::ostream& stream() { return stream_; }

 private:
  int verbosity_;
  const char* file_;
  int line_;
  std::ostringstream stream_;
};

// Gives both arms of the macro's ?: the type void.
struct LogVoidify {
  void operator&(std::ostream&) const {}
};

}  // namespace detail
}  // namespace strata

#define STRATA_LOG_AT_VERBOSITY(verbosity) \
  (verbosity) > ::strata::log_verbosity()  \
      ? void()                             \
      : ::strata::detail::LogVoidify() &   \
            ::strata::detail::LogLine((verbosity), __FILE__, __LINE__).stream()

/// STRATA_LOG(kWarning) << "...": the operands are not evaluated unless the line is shown.
#define STRATA_LOG(level) STRATA_LOG_AT_VERBOSITY(static_cast<int>(::strata::LogLevel::level))
#define STRATA_VLOG(level) STRATA_LOG_AT_VERBOSITY(level)
