#pragma once

#include <sched.h>

#include <cstdint>

namespace strata::ps {

/// Runs this thread on a certain core as long as it lives: where a worker waits there for what the
/// thread does, that core is free, and has the worker's gradients in its caches. Left to itself the
/// scheduler leaves a thread that is running where it is, beside another worker that computes.
/// Afterwards the thread may run wherever it might before.
class CoreVisit {
 public:
  /// @param core  1 + the core. Nothing happens where it is 0, this thread's own, or not this
  ///   thread's to run on.
  explicit CoreVisit(uint32_t core);
  ~CoreVisit();
  CoreVisit(const CoreVisit&) = delete;
  CoreVisit& operator=(const CoreVisit&) = delete;

 private:
  cpu_set_t before_ = {};
  bool moved_ = false;
};

/// On how many cores this thread may run.
int allowed_cores();

}  // namespace strata::ps
