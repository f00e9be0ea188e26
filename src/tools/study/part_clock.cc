#include "tools/study/part_clock.h"

#include <algorithm>

namespace strata::tools {
namespace {

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void PartClock::add_span(std::string_view name, Time began, Time ended) {
  const MutexLock lock(mutex_);
  if (name == "backward") {
    backward_end_ = ended;
  } else if (name.starts_with("push")) {  // the replica's own thread waits for it
    pushes_ += ended - began;
  } else {
    communication_end_ = std::max(communication_end_.value_or(ended), ended);
  }
}

/// A bucket that is added while backward still runs costs nothing by itself: what is behind
/// backward does.
StepParts PartClock::step_ended(Time now) {
  const MutexLock lock(mutex_);
  const Time backward_end = backward_end_.value_or(forward_end_);
  const Time sums_end = std::clamp(communication_end_.value_or(backward_end), backward_end, now);
  const std::chrono::nanoseconds communication =
      std::min<std::chrono::nanoseconds>(sums_end - backward_end + pushes_, now - backward_end);
  return {.forward = seconds(forward_end_ - began_),
          .backward = seconds(backward_end - forward_end_),
          .communication = seconds(communication),
          .update = seconds(now - backward_end - communication)};
}

}  // namespace strata::tools
