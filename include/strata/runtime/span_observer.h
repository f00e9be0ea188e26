#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "strata/core/export.h"

namespace strata {

/// Informed of what takes time in a step, when it is over, on the thread that did it: "backward",
/// and each bucket of gradients on its way between processes, which may be while backward still
/// runs. For traces.
/// Threads: several at once; a bucket's, after an error, perhaps when the scope has ended.
class STRATA_API SpanObserver {
 public:
  virtual ~SpanObserver() = default;
  virtual void span_ended(std::string_view name, std::chrono::steady_clock::time_point began) = 0;
};

/// While it lives, `observer` is informed of what this thread's replica does; null: no observer. To
/// be made in a replica function.
class STRATA_API SpanObserverScope {
 public:
  explicit SpanObserverScope(std::shared_ptr<SpanObserver> observer);
  ~SpanObserverScope();
  SpanObserverScope(const SpanObserverScope&) = delete;
  SpanObserverScope& operator=(const SpanObserverScope&) = delete;

 private:
  std::shared_ptr<SpanObserver> previous_;
};

}  // namespace strata
