#include "data/pipeline.h"

#include <algorithm>
#include <thread>

#include "strata/core/error.h"

namespace strata::data::detail {
namespace {

constexpr int64_t kDefaultBudget = int64_t{1} << 30;

thread_local Pipeline* current_pipeline = nullptr;
thread_local int work_depth = 0;
thread_local std::chrono::nanoseconds blocked_time{0};

int64_t threads_of(const Options& options) {
  const auto cores = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  return options.num_threads.value_or(cores);
}

}  // namespace

Pipeline::Pipeline(const Options& options)
    : options_(options),
      budget_(options.memory_budget.value_or(kDefaultBudget)),
      threads_(*this, threads_of(options)) {}

Pipeline& Pipeline::current() {
  STRATA_DCHECK(current_pipeline != nullptr);  // streams are opened by iterators
  return *current_pipeline;
}

int64_t Pipeline::num_parallel(int64_t num_parallel_calls) {
  if (num_parallel_calls == kAutotune) return threads_.max_threads();
  if (!options_.num_threads) threads_.raise_max_threads(num_parallel_calls);
  return num_parallel_calls;
}

void Pipeline::count_next(const Example* element, std::chrono::nanoseconds time) {
  wait_time_ += time;
  if (element == nullptr) return;
  ++elements_;
  bytes_ += bytes_of(*element);
}

IteratorStats Pipeline::stats() const {
  return {.elements = elements_,
          .bytes = bytes_,
          .wait_time = wait_time_,
          .produce_time = std::chrono::nanoseconds(produce_ns_.load()),
          .buffered_bytes = buffered_bytes_.load(),
          .ignored_errors = ignored_errors_.load()};
}

int64_t bytes_of(const Example& element) {
  int64_t bytes = 0;
  for (const at::Tensor& field : element.fields) {
    if (field.defined() && field.layout() == at::kStrided)
      bytes += static_cast<int64_t>(field.nbytes());
  }
  return bytes;
}

PipelineScope::PipelineScope(Pipeline& pipeline) : before_(current_pipeline) {
  current_pipeline = &pipeline;
}

PipelineScope::~PipelineScope() { current_pipeline = before_; }

WorkTimer::WorkTimer(Pipeline& pipeline)
    : pipeline_(pipeline), begin_(Clock::now()), blocked_before_(blocked_time) {
  ++work_depth;
}

WorkTimer::~WorkTimer() {
  if (--work_depth > 0) return;
  pipeline_.add_produce_time(Clock::now() - begin_ - (blocked_time - blocked_before_));
}

BlockedTimer::~BlockedTimer() { blocked_time += WorkTimer::Clock::now() - begin_; }

}  // namespace strata::data::detail
