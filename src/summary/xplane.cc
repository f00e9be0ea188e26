#include "summary/xplane.h"

#include <map>
#include <string_view>

#include "core/proto_wire.h"

namespace strata::summary::detail {

using strata::detail::put_bytes;
using strata::detail::put_integer;

std::string xspace(const Trace& trace, const std::string& host) {
  constexpr int64_t kPicosecondsPerNs = 1000;
  std::string plane;
  put_integer(1, 1, plane);
  put_bytes(2, "/host:CPU", plane);  // the name by which the page finds the processor
  std::map<std::string_view, int64_t> ids;
  int64_t line_id = 0;
  for (const TraceThread& thread : trace.threads) {
    std::string line;
    put_integer(1, ++line_id, line);
    put_bytes(2, thread.name, line);
    put_integer(3, trace.start_ns, line);
    for (const TraceSpan& span : thread.spans) {
      const int64_t next = static_cast<int64_t>(ids.size()) + 1;
      std::string event;
      put_integer(1, ids.try_emplace(span.name, next).first->second, event);
      put_integer(2, span.begin_ns * kPicosecondsPerNs, event);
      put_integer(3, span.duration_ns * kPicosecondsPerNs, event);
      put_bytes(4, event, line);
    }
    put_bytes(3, line, plane);
  }
  for (const auto& [name, id] : ids) {
    std::string metadata, entry;
    put_integer(1, id, metadata);
    put_bytes(2, name, metadata);
    put_integer(1, id, entry);
    put_bytes(2, metadata, entry);
    put_bytes(4, entry, plane);
  }
  std::string space;
  put_bytes(1, plane, space);
  put_bytes(4, host, space);
  return space;
}

}  // namespace strata::summary::detail
