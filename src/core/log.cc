#include "strata/core/log.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "core/mutex.h"

namespace strata {
namespace {

struct SinkState {
  Mutex mutex;
  LogSink sink STRATA_GUARDED_BY(mutex);
  std::string task STRATA_GUARDED_BY(mutex);
  std::atomic<int> verbosity{detail::parse_log_level(std::getenv("STRATA_LOG_LEVEL"))};
};

// Never destroyed: threads may log while the process ends.
SinkState& state() {
  static auto* const kState = new SinkState;
  return *kState;
}

thread_local std::string thread_device;

void write_to_stderr(const LogRecord& record) {
  std::string line = format_log_record(record);
  line += '\n';
  std::fwrite(line.data(), 1, line.size(),
              stderr);  // one write, so that processes do not mix inside a line
}

char level_letter(int verbosity) {
  switch (verbosity) {
    case static_cast<int>(LogLevel::kError):
      return 'E';
    case static_cast<int>(LogLevel::kWarning):
      return 'W';
    case static_cast<int>(LogLevel::kInfo):
      return 'I';
    default:
      return static_cast<char>('0' + std::min(verbosity, 9));
  }
}

}  // namespace

namespace {

/// A line may quote what a peer or a file brought. Its line ends are indented and its control
/// characters spelled out, so that it can neither look like a line of its own nor command a
/// terminal.
void put_message(std::string_view message, std::ostream& out) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (const char letter : message) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '\n') {
      out << "\n    ";
    } else if ((byte < 0x20 && letter != '\t') || byte == 0x7F) {
      out << "\\x" << kDigits[byte >> 4] << kDigits[byte & 15];
    } else {
      out << letter;
    }
  }
}

}  // namespace

std::string format_log_record(const LogRecord& record) {
  const auto since_epoch = record.time.time_since_epoch();
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count();
  const std::time_t seconds = static_cast<std::time_t>(micros / 1000000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char time[40];
  const size_t date_length = std::strftime(time, sizeof time, "%Y-%m-%d %H:%M:%S", &utc);
  std::snprintf(time + date_length, sizeof time - date_length, ".%06d",
                static_cast<int>(micros % 1000000));

  std::ostringstream out;
  out << level_letter(record.verbosity) << ' ' << time << ' ';
  if (!record.task.empty()) out << record.task << ' ';
  if (!record.device.empty()) out << record.device << ' ';
  out << record.file << ':' << record.line << "] ";
  put_message(record.message, out);
  return out.str();
}

LogSink set_log_sink(LogSink sink) {
  SinkState& log = state();
  const MutexLock lock(log.mutex);
  return std::exchange(log.sink, std::move(sink));
}

void set_log_verbosity(int verbosity) {
  state().verbosity.store(verbosity, std::memory_order_relaxed);
}

int log_verbosity() { return state().verbosity.load(std::memory_order_relaxed); }

void set_log_task(std::string task) {
  SinkState& log = state();
  const MutexLock lock(log.mutex);
  log.task = std::move(task);
}

void set_thread_log_device(std::string device) { thread_device = std::move(device); }

namespace detail {

int parse_log_level(const char* text) {
  constexpr int kDefault = static_cast<int>(LogLevel::kWarning);
  if (text == nullptr) return kDefault;
  const std::string_view word(text);
  if (word == "error") return static_cast<int>(LogLevel::kError);
  if (word == "warning") return static_cast<int>(LogLevel::kWarning);
  if (word == "info") return static_cast<int>(LogLevel::kInfo);
  int number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() ? number : kDefault;
}

LogLine::LogLine(int verbosity, const char* file, int line)
    : verbosity_(verbosity), file_(file), line_(line) {}

LogLine::~LogLine() {
  const std::string message = stream_.str();
  const char* slash = std::strrchr(file_, '/');
  auto& log = state();
  MutexLock lock(log.mutex);
  const LogRecord record{.verbosity = verbosity_,
                         .time = std::chrono::system_clock::now(),
                         .task = log.task,
                         .device = thread_device,
                         .file = slash == nullptr ? file_ : slash + 1,
                         .line = line_,
                         .message = message};
  if (log.sink) {
    log.sink(record);
  } else {
    write_to_stderr(record);
  }
}

}  // namespace detail
}  // namespace strata
