#pragma once

#include <ATen/ThreadLocalState.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "core/mutex.h"
#include "core/thread.h"

namespace strata::data::detail {

class Pipeline;

/// Something that has work for threads. Each `submit` leads to one call of `work`.
class Worker {
 public:
  virtual void work() = 0;

 protected:
  ~Worker() = default;
};

/// The threads of one iterator, started as they are needed, named strata-data. They carry the state
/// of the thread that submitted first, and run torch operators alone.
///
/// Nothing deadlocks, however transforms are nested: work that a thread waits for and no thread has
/// begun is done by who waits; and a thread waits only for work that a thread has begun on elements
/// of transforms further down.
class DataThreads {
 public:
  DataThreads(Pipeline& pipeline, int64_t max_threads);
  ~DataThreads();

  int64_t max_threads() const;
  void raise_max_threads(int64_t at_least);

  void submit(Worker& worker);

  /// Takes back what no thread has begun. @return how many submits.
  int64_t cancel(Worker& worker);

 private:
  void run();

  Pipeline& pipeline_;
  mutable Mutex mutex_;
  ConditionVariable wake_;
  std::deque<Worker*> queue_ STRATA_GUARDED_BY(mutex_);
  int64_t max_threads_ STRATA_GUARDED_BY(mutex_);
  int64_t idle_ STRATA_GUARDED_BY(mutex_) = 0;
  bool stop_ STRATA_GUARDED_BY(mutex_) = false;
  std::vector<Thread> threads_ STRATA_GUARDED_BY(mutex_);
};

}  // namespace strata::data::detail
