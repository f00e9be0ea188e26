#pragma once

#include <cstddef>
#include <vector>

#include "wire/transfer.h"

namespace strata::collective {

/// The transfers of one direction of a rank, one after the other: the next one starts when little
/// is left of those before it. So a line carries one message at a time, as schedules assume, and
/// ranks that follow one schedule stay in step. All at once, they would take from each other what
/// they wait for: with 8 hosts that costs 4 % to 7 % of the lines.
class LinkQueue {
 public:
  /// @param transfers  By step; outlives this.
  /// @param window  The next one starts when no more than so many bytes are left of the others.
  LinkQueue(std::vector<wire::Transfer>& transfers, size_t window)
      : transfers_(transfers), window_(window) {}

  /// @param step  Ascending from call to call.
  void add(size_t step, size_t bytes) { entries_.push_back({step, bytes}); }

  bool all_started() const { return next_ == entries_.size(); }
  bool started(size_t step) const { return all_started() || step < entries_[next_].step; }
  /// The first one that may not be done.
  size_t first() const { return entries_[first_].step; }

  /// Starts those whose turn has come. @param start  Makes the transfer of a step.
  template <typename Start>
  void advance(const Start& start) {
    while (!all_started() && left() <= window_) {
      const size_t step = entries_[next_].step;
      transfers_[step] = start(step);
      ++next_;
    }
  }

 private:
  struct Entry {
    size_t step;
    size_t bytes;
  };

  size_t left() {
    while (first_ < next_ && transfers_[entries_[first_].step].done()) ++first_;
    size_t sum = 0;
    for (size_t i = first_; i < next_; ++i) {
      const wire::Transfer& transfer = transfers_[entries_[i].step];
      if (!transfer.done()) sum += entries_[i].bytes - transfer.arrived();
    }
    return sum;
  }

  std::vector<wire::Transfer>& transfers_;
  const size_t window_;
  std::vector<Entry> entries_;
  size_t first_ = 0;
  size_t next_ = 0;
};

}  // namespace strata::collective
