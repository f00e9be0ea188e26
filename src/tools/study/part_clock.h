#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "core/mutex.h"
#include "strata/runtime/span_observer.h"
#include "tools/study/measurement.h"

namespace strata::tools {

/// Cuts one replica's step into its parts, by the spans that the library reports: "backward", each
/// bucket of gradients on its way between processes, and pushes and pulls.
///
///     const auto clock = std::make_shared<PartClock>();
///     const SpanObserverScope scope(clock);
///     ... forward ...
///     clock->forward_ended();
///     optimizer.minimize(loss);
///     const StepParts parts = clock->step_ended();
///
/// Threads: those that report spans; the other calls are the replica's.
class PartClock final : public SpanObserver {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit PartClock(Time began = std::chrono::steady_clock::now()) : began_(began) {}

  void span_ended(std::string_view name, Time began) override {
    add_span(name, began, std::chrono::steady_clock::now());
  }
  void add_span(std::string_view name, Time began, Time ended);

  void forward_ended(Time now = std::chrono::steady_clock::now()) { forward_end_ = now; }
  StepParts step_ended(Time now = std::chrono::steady_clock::now());

 private:
  const Time began_;
  Time forward_end_ = {};
  Mutex mutex_;
  std::optional<Time> backward_end_ STRATA_GUARDED_BY(mutex_);
  std::optional<Time> communication_end_ STRATA_GUARDED_BY(mutex_);  // of the last bucket
  std::chrono::nanoseconds pushes_ STRATA_GUARDED_BY(mutex_) = {};
};

}  // namespace strata::tools
