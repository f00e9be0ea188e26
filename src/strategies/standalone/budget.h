#pragma once

#include <cstdint>

#include "core/mutex.h"
#include "strata/core/error.h"

namespace strata::standalone {

/// The memory that the sessions of a server may take together, bytes. Threads: any.
class Budget {
 public:
  explicit Budget(uint64_t limit) : limit_(limit) {}

  uint64_t limit() const { return limit_; }
  uint64_t left() const {
    const MutexLock lock(mutex_);
    return limit_ - used_;
  }
  /// @throws Error  kResourceExhausted: there is less.
  void take(uint64_t bytes) {
    const MutexLock lock(mutex_);
    STRATA_CHECK(bytes <= limit_ - used_, kResourceExhausted, "[standalone] the server has ",
                 limit_ - used_, " bytes left for its sessions, and ", bytes,
                 " are asked for; close other sessions, or start it with more --memory");
    used_ += bytes;
  }
  void give_back(uint64_t bytes) {
    const MutexLock lock(mutex_);
    used_ -= bytes;
  }

 private:
  const uint64_t limit_;
  mutable Mutex mutex_;
  uint64_t used_ STRATA_GUARDED_BY(mutex_) = 0;
};

/// A part of a budget, given back at the end. Threads: one at a time.
class BudgetShare {
 public:
  explicit BudgetShare(Budget& budget) : budget_(budget) {}
  ~BudgetShare() { budget_.give_back(taken_); }
  BudgetShare(const BudgetShare&) = delete;
  BudgetShare& operator=(const BudgetShare&) = delete;

  void take(uint64_t bytes) {
    budget_.take(bytes);
    taken_ += bytes;
  }
  uint64_t left() const { return budget_.left(); }
  Budget& of() const { return budget_; }

 private:
  Budget& budget_;
  uint64_t taken_ = 0;
};

}  // namespace strata::standalone
