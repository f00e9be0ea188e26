#include "data/data_threads.h"

#include <algorithm>

#include "data/pipeline.h"
#include "data/single_thread.h"

namespace strata::data::detail {

DataThreads::DataThreads(Pipeline& pipeline, int64_t max_threads)
    : pipeline_(pipeline), max_threads_(max_threads) {}

DataThreads::~DataThreads() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (Thread& thread : threads_) thread.join();
}

int64_t DataThreads::max_threads() const {
  const MutexLock lock(mutex_);
  return max_threads_;
}

void DataThreads::raise_max_threads(int64_t at_least) {
  const MutexLock lock(mutex_);
  max_threads_ = std::max(max_threads_, at_least);
}

void DataThreads::submit(Worker& worker) {
  MutexLock lock(mutex_);
  queue_.push_back(&worker);
  if (idle_ < static_cast<int64_t>(queue_.size()) &&
      static_cast<int64_t>(threads_.size()) < max_threads_) {
    threads_.emplace_back("strata-data", [this, state = at::ThreadLocalState()] {
      const at::ThreadLocalStateGuard guard(state);
      use_single_thread();
      const PipelineScope scope(pipeline_);
      run();
    });
  }
  lock.unlock();
  wake_.notify_one();
}

int64_t DataThreads::cancel(Worker& worker) {
  const MutexLock lock(mutex_);
  return static_cast<int64_t>(std::erase(queue_, &worker));
}

void DataThreads::run() {
  MutexLock lock(mutex_);
  while (true) {
    ++idle_;
    wake_.wait(lock, [&]() STRATA_REQUIRES(mutex_) { return stop_ || !queue_.empty(); });
    --idle_;
    if (stop_) return;
    Worker& worker = *queue_.front();
    queue_.pop_front();
    lock.unlock();
    {
      const WorkTimer timer(pipeline_);
      worker.work();
    }
    lock.lock();
  }
}

}  // namespace strata::data::detail
