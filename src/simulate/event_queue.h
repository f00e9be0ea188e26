#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

namespace strata::simulate {

/// Simulated time, and what happens in it. Events of one time run in the order in which they were
/// added, so that equal inputs give equal runs. Times that differ by less than a picosecond are one
/// time: rounding would else tear apart what identical ranks do together.
class EventQueue {
 public:
  using Call = std::function<void()>;

  double now() const { return now_; }
  int64_t events() const { return number_; }

  /// @param time  From `now()` on; an earlier one is now.
  void at(double time, Call call);

  /// `call` runs once when all events of the present time have run, before time advances.
  void when_time_advances(Call call);

  /// Runs until no event is left.
  void run();

 private:
  struct Event {
    double time;
    int64_t number;
    Call call;
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  double now_ = 0;
  int64_t number_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Call> at_the_end_;
};

}  // namespace strata::simulate
