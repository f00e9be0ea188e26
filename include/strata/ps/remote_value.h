#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "strata/core/error.h"
#include "strata/core/export.h"
#include "strata/ps/function_types.h"
#include "strata/ps/value.h"
#include "strata/wire/deadline.h"

namespace strata::ps {

namespace detail {

/// The outcome of a scheduled call.
class RemoteState {
 public:
  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  const Status& status() const { return status_; }  // only when done
  const Value& value() const { return value_; }     // only when done and ok

  /// Called at most once.
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

inline constexpr std::chrono::hours kNoFetchLimit{24 * 365};

/// The state behind RemoteValues of all types.
class STRATA_API RemoteHandle {
 public:
  RemoteHandle(std::shared_ptr<RemoteState> state, std::weak_ptr<CoordinatorCore> core)
      : state_(std::move(state)), core_(std::move(core)) {}

  bool done() const { return state_->done(); }
  /// @throws Error  as RemoteValue::fetch.
  Value wait(wire::Deadline deadline) const;

 private:
  std::shared_ptr<RemoteState> state_;
  std::weak_ptr<CoordinatorCore> core_;
};

/// Converts a function's result to its type. @throws Error  kInvalidArgument: it has another type.
template <typename T>
T from_result(const Value& value) {
  try {
    if constexpr (std::is_void_v<T>) {
      if (value.kind() != Value::Kind::kNothing) wrong_value(value, "nothing");
    } else if constexpr (IsTuple<T>::value) {
      constexpr size_t kSize = std::tuple_size_v<T>;
      if (value.kind() != Value::Kind::kList || value.list().size() != kSize) {
        wrong_value(value, str_cat("a list of ", kSize));
      }
      return [&]<size_t... I>(std::index_sequence<I...>) {
        return T{from_value<std::tuple_element_t<I, T>>(value.list()[I])...};
      }
      (std::make_index_sequence<kSize>());
    } else {
      return from_value<T>(value);
    }
  } catch (const Error& error) {
    throw Error(error.code(), str_cat("[ps] RemoteValue: ", error.what()));
  }
}

}  // namespace detail

/// The result of a scheduled call on some worker, which may still be queued. A handle; copies refer
/// to the same result. It cannot be an argument of another call: its value is here, not on a
/// worker.
///
/// @tparam T  The function's result type, for a call by RemoteFunction; a call by name gives a
///   Value.
/// Threads: any. Source: tf.distribute.coordinator.RemoteValue.
template <typename T>
class RemoteValue {
 public:
  static constexpr std::chrono::hours kNoLimit = detail::kNoFetchLimit;

  /// True if the call has ended, with or without an error. Costs one load.
  bool done() const { return handle_.done(); }

  /// Waits for the function's result.
  /// @throws Error  the function's exception; its message names function and worker. kCancelled: it
  ///   was cancelled after another one's error; "Please reschedule the function" (it may have run).
  ///   kDeadlineExceeded. These are thrown each time; ClusterCoordinator::join raises errors
  ///   independently.
  T fetch(wire::Deadline deadline = wire::Deadline::after(kNoLimit)) const {
    if constexpr (std::same_as<T, Value>) {
      return handle_.wait(deadline);
    } else {
      return detail::from_result<T>(handle_.wait(deadline));
    }
  }

  /// Converts a Value to an R: at::Tensor, double, int64_t, bool, std::string, std::vector of
  /// these.
  /// @throws Error  kInvalidArgument: it is not an R.
  template <detail::Plain R>
  requires(std::same_as<T, Value>) R get(wire::Deadline deadline = wire::Deadline::after(kNoLimit))
  const { return detail::from_result<R>(fetch(deadline)); }

  explicit RemoteValue(detail::RemoteHandle handle) : handle_(std::move(handle)) {}
  const detail::RemoteHandle& handle() const { return handle_; }

 private:
  detail::RemoteHandle handle_;
};

/// A value on every worker: an object that a factory has made there, or the result of a function.
/// As an argument of a scheduled function it is the value of the worker that runs it. A handle;
/// when the last copy is destroyed, and the last call that takes it has ended, the workers release
/// it.
/// Threads: any. Source: tf.distribute.coordinator.PerWorkerValues.
class STRATA_API PerWorkerValues {
 public:
  operator Value() const { return Value(*id_); }
  uint64_t number() const { return id_->number; }

  explicit PerWorkerValues(std::shared_ptr<const ResourceId> id) : id_(std::move(id)) {}

 private:
  std::shared_ptr<const ResourceId> id_;
};

/// Counters since a ClusterCoordinator was made.
struct CoordinatorCounts {
  uint64_t scheduled = 0;
  uint64_t finished = 0;   ///< functions that returned
  uint64_t failed = 0;     ///< functions that threw
  uint64_t cancelled = 0;  ///< before they ended
  uint64_t retried = 0;    ///< requeued since their worker was lost
  uint64_t lost = 0;       ///< lost workers, each time
};

}  // namespace strata::ps
