#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "strata/core/export.h"
#include "strata/summary/trace.h"

namespace strata::summary {

struct TraceRecorderOptions {
  /// Spans beyond it are counted, not kept. A span takes 48 bytes and its name, if that is longer
  /// than 15.
  int64_t max_spans_per_thread = 1 << 20;
};

/// Records what threads do, each in memory of its own. Threads are shown by their names (Thread,
/// set_thread_name) at their first span.
///
///     const auto span = recorder.span("forward");  // until the end of the block
///
/// Threads: any, at once. Recording threads must end before the recorder is destroyed.
/// Cost: about 0.2 us a span.
class STRATA_API TraceRecorder {
 public:
  explicit TraceRecorder(const TraceRecorderOptions& options = {});
  ~TraceRecorder();
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;

  /// Its destructor ends the span, on the thread that began it.
  class STRATA_API Scope {
   public:
    /// Without a recorder it does nothing: code can hold one that is often null.
    Scope(TraceRecorder* recorder, std::string_view name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    TraceRecorder* recorder_;
    std::string name_;
    int64_t begin_ = 0;
  };
  [[nodiscard]] Scope span(std::string_view name) { return {this, name}; }

  /// Nanoseconds since the recorder was made.
  int64_t now() const;

  /// A span of the calling thread, from two values of `now`.
  void add(std::string_view name, int64_t begin_ns, int64_t end_ns);

  /// Everything recorded so far; it starts anew. A span that is open is part of the next one.
  Trace take();

 private:
  struct Buffer;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::summary
