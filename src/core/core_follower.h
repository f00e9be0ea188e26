#pragma once

#include <cstdint>

namespace strata::detail {

/// For a thread that works while a partner, on whose behalf it does, waits: it should run on the
/// core that the partner leaves, where the data are in the caches and no other thread has to make
/// room. The scheduler wakes a thread where it ran last, and so keeps it there once it is there.
/// Threads: one.
class CoreFollower {
 public:
  /// The partner waits on this core (as `current_core` says). Where this thread was on another one
  /// several times in a row it moves there, if it may run there. It is not bound: the scheduler may
  /// move it on. Moving costs about two switches of threads.
  void follow(uint32_t core);

 private:
  int apart_ = 0;  // times in a row
};

}  // namespace strata::detail
