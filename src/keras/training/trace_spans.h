#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/mutex.h"
#include "strata/runtime/span_observer.h"
#include "strata/summary/trace_recorder.h"

namespace strata::keras::detail {

/// Puts what an optimizer does, and gradients on their way between processes, into a trace.
class TraceSpans final : public SpanObserver {
 public:
  explicit TraceSpans(summary::TraceRecorder& recorder) : recorder_(&recorder) {}

  void span_ended(std::string_view name, std::chrono::steady_clock::time_point began) override {
    const MutexLock lock(mutex_);
    if (recorder_ == nullptr) return;
    const int64_t now = recorder_->now();
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - began;
    recorder_->add(name, std::max<int64_t>(now - took.count(), 0), now);
  }

  /// From now on it does nothing: the recorder may go.
  void end() {
    const MutexLock lock(mutex_);
    recorder_ = nullptr;
  }

 private:
  Mutex mutex_;
  summary::TraceRecorder* recorder_ STRATA_GUARDED_BY(mutex_);
};

/// Records until the end of the block; null: nothing.
class TraceSpansGuard {
 public:
  explicit TraceSpansGuard(summary::TraceRecorder* recorder)
      : spans_(recorder == nullptr ? nullptr : std::make_shared<TraceSpans>(*recorder)) {}
  ~TraceSpansGuard() {
    if (spans_) spans_->end();
  }
  TraceSpansGuard(const TraceSpansGuard&) = delete;
  TraceSpansGuard& operator=(const TraceSpansGuard&) = delete;

  const std::shared_ptr<TraceSpans>& get() const { return spans_; }

 private:
  std::shared_ptr<TraceSpans> spans_;
};

}  // namespace strata::keras::detail
