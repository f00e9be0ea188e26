#include "simulate/event_queue.h"

#include <algorithm>
#include <utility>

namespace strata::simulate {
namespace {

constexpr double kOneTime = 1e-12;  // seconds

}  // namespace

void EventQueue::at(double time, Call call) {
  events_.push({std::max(time, now_), number_++, std::move(call)});
}

void EventQueue::when_time_advances(Call call) { at_the_end_.push_back(std::move(call)); }

void EventQueue::run() {
  while (true) {
    const bool later = events_.empty() || events_.top().time > now_ + kOneTime;
    if (later && !at_the_end_.empty()) {
      const std::vector<Call> calls = std::exchange(at_the_end_, {});
      for (const Call& call : calls) call();
      continue;
    }
    if (events_.empty()) return;
    // The queue's top is constant, and the call is of no use to it any more.
    const Call call = std::move(const_cast<Event&>(events_.top()).call);
    if (later) now_ = events_.top().time;
    events_.pop();
    call();
  }
}

}  // namespace strata::simulate
