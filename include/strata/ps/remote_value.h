#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "strata/core/error.h"
#include "strata/core/export.h"
#include "strata/ps/function_types.h"
#include "strata/ps/value.h"
#include "strata/wire/deadline.h"

namespace strata::ps {

namespace detail {

/// How a scheduled call ended, once it has.
class RemoteState {
 public:
  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  const Status& status() const { return status_; }  // once done
  const Value& value() const { return value_; }     // once done and ok

  /// At most once.
  void finish(Status status, Value value = {}) {
    status_ = std::move(status);
    value_ = std::move(value);
    done_.store(true, std::memory_order_release);
  }

 private:
  std::atomic<bool> done_{false};
  Status status_;
  Value value_;
};

class CoordinatorCore;

}  // namespace detail

/// The result of a call that was scheduled: of a function on some worker, which may still wait for
/// its turn. A handle; copies are of the same result. It cannot be an argument of another call: the
/// value is here, not on a worker.
///
/// Threads: any. Source: tf.distribute.coordinator.RemoteValue.
class STRATA_API RemoteValue {
 public:
  /// Whether it has ended, well or not. Costs one load.
  bool done() const { return state_->done(); }

  /// What the function returned, waited for.
  /// @throws Error  what the function threw; its message names it and the worker. kCancelled: it
  ///   was cancelled after another one's error; "Please reschedule the function" (it may have run).
  ///   kDeadlineExceeded. These come each time; what Coordinator::join raises is apart from it.
  Value fetch(wire::Deadline deadline = wire::Deadline::after(kNoLimit)) const;

  /// The same as a T: at::Tensor, double, int64_t, bool, std::string, std::vector of these.
  /// @throws Error  kInvalidArgument: it is no T.
  template <detail::Plain T>
  T get(wire::Deadline deadline = wire::Deadline::after(kNoLimit)) const {
    const Value value = fetch(deadline);
    try {
      return detail::from_value<T>(value);
    } catch (const Error& error) {
      throw Error(error.code(), str_cat("[ps] RemoteValue: ", error.what()));
    }
  }

  static constexpr std::chrono::hours kNoLimit{24 * 365};

  RemoteValue(std::shared_ptr<detail::RemoteState> state,
              std::weak_ptr<detail::CoordinatorCore> core)
      : state_(std::move(state)), core_(std::move(core)) {}

 private:
  std::shared_ptr<detail::RemoteState> state_;
  std::weak_ptr<detail::CoordinatorCore> core_;
};

}  // namespace strata::ps
