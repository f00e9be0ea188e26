#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/core/export.h"

namespace strata::summary {

struct TraceSpan {
  std::string name;
  int64_t begin_ns = 0;  ///< since Trace::start_ns
  int64_t duration_ns = 0;
};

struct TraceThread {
  std::string name;
  std::vector<TraceSpan> spans;  ///< in the order of their ends
};

/// The spans that a TraceRecorder has recorded.
struct Trace {
  int64_t start_ns = 0;  ///< since 1970
  std::vector<TraceThread> threads;
  int64_t dropped = 0;  ///< spans beyond TraceRecorderOptions::max_spans_per_thread
};

/// Returns Chrome's JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
/// @param process  The name of the process; by default the machine's name.
STRATA_API std::string chrome_trace_json(const Trace& trace, const std::string& process = {});

/// Writes the same to a file, with gzip if `path` ends in ".gz". @throws Error  as
/// FileSystem::create.
STRATA_API void write_chrome_trace(const std::string& path, const Trace& trace,
                                   const std::string& process = {});

/// Writes the input of TensorBoard's page Profile, in the folder of a run that has event files:
/// `plugins/profile/<name>/<host>.xplane.pb`, and `<host>.trace.json.gz` beside it for Perfetto.
/// @param name  By default the date and time, 2024_01_31_12_00_00.
/// @return the folder. @throws Error  as FileSystem.
STRATA_API std::string write_profile(const std::string& logdir, const Trace& trace,
                                     const std::string& name = {});

}  // namespace strata::summary
