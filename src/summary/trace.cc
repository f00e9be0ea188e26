#include "strata/summary/trace.h"

#include <cstdio>
#include <ctime>

#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "summary/event_file_name.h"
#include "summary/gzip.h"
#include "summary/xplane.h"

namespace strata::summary {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

// Microseconds, as the format wants them, to the nanosecond.
std::string microseconds(int64_t ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(ns / 1000),
                static_cast<long long>(ns % 1000));
  return text;
}

void write_file(const std::string& path, const std::string& bytes) {
  const auto file = file_system_of(path).create(path);
  file->append(std::as_bytes(std::span(bytes)));
  file->close();
}

std::string date_and_time(int64_t ns) {
  const auto seconds = static_cast<std::time_t>(ns / 1'000'000'000);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y_%m_%d_%H_%M_%S", &parts);
  return text;
}

}  // namespace

std::string chrome_trace_json(const Trace& trace, const std::string& process) {
  const std::string name = quoted(process.empty() ? detail::host_name() : process);
  std::string json = R"({"displayTimeUnit":"ns","traceEvents":[)";
  json += R"({"ph":"M","pid":1,"name":"process_name","args":{"name":)" + name + "}}";
  int thread_id = 0;
  for (const TraceThread& thread : trace.threads) {
    const std::string where = R"("pid":1,"tid":)" + std::to_string(++thread_id) + ",";
    json += ",\n{\"ph\":\"M\"," + where + R"("name":"thread_name","args":{"name":)" +
            quoted(thread.name) + "}}";
    for (const TraceSpan& span : thread.spans) {
      json += ",\n{\"ph\":\"X\"," + where + "\"ts\":" + microseconds(span.begin_ns) +
              ",\"dur\":" + microseconds(span.duration_ns) + ",\"name\":" + quoted(span.name) + "}";
    }
  }
  return json + "\n]}\n";
}

void write_chrome_trace(const std::string& path, const Trace& trace, const std::string& process) {
  const std::string json = chrome_trace_json(trace, process);
  write_file(path, path.ends_with(".gz") ? detail::gzip(json) : json);
}

std::string write_profile(const std::string& logdir, const Trace& trace, const std::string& name) {
  const std::string folder = join_path(join_path(logdir, "plugins/profile"),
                                       name.empty() ? date_and_time(trace.start_ns) : name);
  file_system_of(folder).make_folders(folder);
  const std::string host = detail::host_name();
  write_file(join_path(folder, host + ".xplane.pb"), detail::xspace(trace, host));
  write_chrome_trace(join_path(folder, host + ".trace.json.gz"), trace);
  return folder;
}

}  // namespace strata::summary
