#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ps/coordinator/value_codec.h"
#include "strata/core/error.h"
#include "strata/ps/remote_value.h"

namespace strata::ps {

/// A call that was scheduled, until it has ended.
struct Closure {
  uint64_t number = 0;
  uint32_t function = 0;
  EncodedValues arguments;
  std::shared_ptr<detail::RemoteState> result;
  std::vector<std::shared_ptr<const ResourceId>> resources;  // kept while it may run
  int lost = 0;                                              // so many workers with it
  // While it is at a worker.
  std::chrono::steady_clock::time_point sent = {};
  int64_t estimate_ns = 0;
};

/// Which calls wait, which are at which worker, and what happened to the others: the rules of
/// Coordinator (rule 70), without threads, wire and clock.
class ClosureQueue {
 public:
  using Pointer = std::unique_ptr<Closure>;

  explicit ClosureQueue(size_t limit) : limit_(limit) {}

  /// In the order of their numbers, which are new. While there is no error.
  void put(Pointer closure);
  bool full() const { return waiting_.size() >= limit_; }
  bool empty() const { return waiting_.empty(); }
  const Closure& front() const { return *waiting_.front(); }

  /// The first that waits is at `worker` now. @return it; lives until it has ended.
  Closure& begin(int worker);
  /// Those that are there, oldest first.
  using InFlight = std::map<uint64_t, Pointer>;
  const InFlight& at(int worker) const;
  const Closure* find(int worker, uint64_t number) const;

  /// The worker says how one ended. Nothing if it is not there: it was lost and came back.
  void finished(int worker, uint64_t number, Value value);
  void failed(int worker, uint64_t number, const Status& status);
  /// It has not begun there: it waits again, in its old place.
  void requeued(int worker, uint64_t number);
  /// All that are there wait again, in their old places. @return how many.
  size_t lost(int worker);

  /// An error that belongs to no result, to be raised.
  void fail(const Status& status);

  bool has_error() const { return error_.has_value(); }
  /// Whether nothing is at a worker.
  bool idle() const { return in_flight_ == 0; }
  size_t in_flight() const { return in_flight_; }
  /// Takes the error, once the queue is idle; all that waited has been cancelled.
  Status take_error();

  /// Cancels what waits.
  void cancel();

  const CoordinatorCounts& counts() const { return counts_; }

 private:
  Pointer take(int worker, uint64_t number);
  void put_back(Pointer closure);
  void cancel(Closure& closure);

  const size_t limit_;
  std::deque<Pointer> waiting_;  // by number
  std::map<int, InFlight> at_;   // by worker
  size_t in_flight_ = 0;
  std::optional<Status> error_;
  CoordinatorCounts counts_;
};

}  // namespace strata::ps
