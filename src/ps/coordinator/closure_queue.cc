#include "ps/coordinator/closure_queue.h"

#include <algorithm>
#include <utility>

namespace strata::ps {

void ClosureQueue::put(Pointer closure) {
  ++counts_.scheduled;
  waiting_.push_back(std::move(closure));
}

Closure& ClosureQueue::begin(int worker) {
  Pointer first = std::move(waiting_.front());
  waiting_.pop_front();
  ++in_flight_;
  Closure& closure = *first;
  at_[worker].emplace(closure.number, std::move(first));
  return closure;
}

const ClosureQueue::InFlight& ClosureQueue::at(int worker) const {
  static const InFlight kNone;
  const auto found = at_.find(worker);
  return found == at_.end() ? kNone : found->second;
}

const Closure* ClosureQueue::find(int worker, uint64_t number) const {
  const InFlight& there = at(worker);
  const auto found = there.find(number);
  return found == there.end() ? nullptr : found->second.get();
}

ClosureQueue::Pointer ClosureQueue::take(int worker, uint64_t number) {
  const auto there = at_.find(worker);
  if (there == at_.end()) return nullptr;
  auto node = there->second.extract(number);
  if (node.empty()) return nullptr;
  --in_flight_;
  return std::move(node.mapped());
}

void ClosureQueue::finished(int worker, uint64_t number, Value value) {
  const Pointer closure = take(worker, number);
  if (closure == nullptr) return;
  ++counts_.finished;
  closure->result->finish(Status(), std::move(value));
}

void ClosureQueue::failed(int worker, uint64_t number, const Status& status) {
  const Pointer closure = take(worker, number);
  if (closure == nullptr) return;
  if (error_ && status.code() == ErrorCode::kCancelled) return cancel(*closure);  // as requested
  ++counts_.failed;
  closure->result->finish(status);
  fail(status);
}

void ClosureQueue::requeued(int worker, uint64_t number) {
  if (Pointer closure = take(worker, number)) put_back(std::move(closure));
}

size_t ClosureQueue::lost(int worker) {
  auto there = at_.extract(worker);
  if (there.empty()) return 0;
  in_flight_ -= there.mapped().size();
  for (auto& [number, closure] : there.mapped()) {
    ++closure->lost;
    if (!error_) ++counts_.retried;
    put_back(std::move(closure));
  }
  return there.mapped().size();
}

// Those that come back are mostly older than all that wait.
void ClosureQueue::put_back(Pointer closure) {
  if (error_) return cancel(*closure);
  const auto place = std::ranges::lower_bound(waiting_, closure->number, {},
                                              [](const Pointer& each) { return each->number; });
  waiting_.insert(place, std::move(closure));
}

void ClosureQueue::cancel(Closure& closure) {
  ++counts_.cancelled;
  closure.result->finish(
      Status(ErrorCode::kCancelled,
             "[ps] The corresponding function is cancelled. Please reschedule the function."));
}

void ClosureQueue::fail(const Status& status) {
  if (error_) return;  // the first one wins
  error_ = status;
  cancel();
}

void ClosureQueue::cancel() {
  for (const Pointer& each : waiting_) cancel(*each);
  waiting_.clear();
}

Status ClosureQueue::take_error() {
  Status error = *std::move(error_);
  error_.reset();
  return error;
}

}  // namespace strata::ps
