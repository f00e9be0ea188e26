#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "data/data_threads.h"
#include "strata/data/example.h"
#include "strata/data/iterator.h"
#include "strata/data/options.h"

namespace strata::data::detail {

/// What the streams of one iterator share: threads, the memory budget, counts. Streams that need it
/// take `current()` when they are made; it lives longer than they do.
class Pipeline {
 public:
  explicit Pipeline(const Options& options);
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// That of the iterator that the calling thread works for.
  static Pipeline& current();

  DataThreads& threads() { return threads_; }

  /// How many calls at once `num_parallel_calls` means here, and provides the threads.
  int64_t num_parallel(int64_t num_parallel_calls);

  bool deterministic(const std::optional<bool>& own) const {
    return own.value_or(options_.deterministic.value_or(true));
  }

  /// Whether more may be made ahead.
  bool has_room() const { return buffered_bytes_.load(std::memory_order_relaxed) < budget_; }
  void add_buffered(int64_t bytes) { add(buffered_bytes_, bytes); }
  void add_produce_time(std::chrono::nanoseconds time) { add(produce_ns_, time.count()); }
  void add_ignored_errors(int64_t count) { add(ignored_errors_, count); }

  /// Called by the consumer only.
  void count_next(const Example* element, std::chrono::nanoseconds time);
  IteratorStats stats() const;

 private:
  static void add(std::atomic<int64_t>& to, int64_t value) {
    to.fetch_add(value, std::memory_order_relaxed);
  }

  const Options options_;
  const int64_t budget_;
  std::atomic<int64_t> buffered_bytes_{0};
  std::atomic<int64_t> produce_ns_{0};
  std::atomic<int64_t> ignored_errors_{0};
  int64_t elements_ = 0;
  int64_t bytes_ = 0;
  std::chrono::nanoseconds wait_time_{0};
  DataThreads threads_;  // last: joined before the rest is destroyed
};

/// Bytes of an element's tensors.
int64_t bytes_of(const Example& element);

/// While it lives, the thread works for `pipeline`.
class PipelineScope {
 public:
  explicit PipelineScope(Pipeline& pipeline);
  ~PipelineScope();
  PipelineScope(const PipelineScope&) = delete;
  PipelineScope& operator=(const PipelineScope&) = delete;

 private:
  Pipeline* before_;
};

/// The time that this thread works is added to `pipeline`'s produce_time, but for that under a
/// BlockedTimer; inner timers of a thread count nothing.
class WorkTimer {
 public:
  using Clock = std::chrono::steady_clock;

  explicit WorkTimer(Pipeline& pipeline);
  ~WorkTimer();
  WorkTimer(const WorkTimer&) = delete;
  WorkTimer& operator=(const WorkTimer&) = delete;

  Clock::time_point begin() const { return begin_; }

 private:
  Pipeline& pipeline_;
  Clock::time_point begin_;
  std::chrono::nanoseconds blocked_before_;
};

/// The time that this thread waits for another.
class BlockedTimer {
 public:
  BlockedTimer() : begin_(WorkTimer::Clock::now()) {}
  ~BlockedTimer();
  BlockedTimer(const BlockedTimer&) = delete;
  BlockedTimer& operator=(const BlockedTimer&) = delete;

 private:
  WorkTimer::Clock::time_point begin_;
};

}  // namespace strata::data::detail
