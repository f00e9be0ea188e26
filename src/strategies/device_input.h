#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "core/mutex.h"
#include "core/thread.h"
#include "strata/data/example.h"
#include "strata/data/iterator.h"
#include "strata/runtime/devices.h"
#include "tensor/stream_event.h"

namespace strata::detail {

/// Batches for GPUs, there before the steps that read them. A thread takes them from the input,
/// copies them into pinned memory and has them copied to the devices on streams of their own, so
/// that neither the steps nor the host wait for a copy that is done in time. At most `ahead` of them
/// are on the devices beside the one that a step reads. Errors and the end come in their place.
///
/// A batch carries the input's position right behind it: that, not the thread's, is where the
/// consumer is.
class DeviceInput {
 public:
  using Parts = std::vector<data::Example>;  ///< One a replica, or fewer at the end.
  /// How far the input was read.
  struct Place {
    data::Position position;
    data::IteratorStats stats;
  };
  /// Called by the thread alone, one at a time.
  struct Source {
    std::function<Parts()> next;  ///< Empty: the end.
    std::function<Place()> place;
  };

  /// @param devices  By replica.
  /// @param ahead  1 or more.
  DeviceInput(std::vector<LogicalDevice> devices, Source source, int64_t ahead);
  ~DeviceInput();
  DeviceInput(const DeviceInput&) = delete;
  DeviceInput& operator=(const DeviceInput&) = delete;

  /// On the devices; work that is enqueued on the replicas' streams from now on may read them.
  /// Empty: the end. Waits as long as the source does.
  Parts next();
  const Place& place() const { return place_; }

 private:
  struct Item {
    Parts parts;
    std::vector<std::optional<tensor::StreamEvent>> copied;  // by replica; none: on a CPU
    Place place;
    std::exception_ptr error;
  };

  void run(const std::stop_token& stop);
  Item make();
  void move(Item& item, size_t replica) const;

  const std::vector<LogicalDevice> devices_;
  const Source source_;
  const size_t ahead_;
  std::vector<std::optional<c10::Stream>> streams_;  // by replica: copies to its GPU
  Place place_;
  bool ended_ = false;

  Mutex mutex_;
  std::deque<Item> queue_ STRATA_GUARDED_BY(mutex_);
  std::condition_variable_any room_;
  ConditionVariable filled_;
  Thread thread_;  // last: it uses the others
};

/// Copies a replica's part to its device, in the way of its stream.
void move_to(const LogicalDevice& device, data::Example& part);

}  // namespace strata::detail
