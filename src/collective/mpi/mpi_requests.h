#pragma once

#include <mpi.h>

#include <c10/util/SmallVector.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>

#include "collective/mpi/mpi_process.h"
#include "core/clock.h"
#include "strata/core/error.h"

namespace strata::collective {

/// How a call waits: busily, then looking again and again, since MPI does not wake threads.
struct MpiWait {
  /// Why the wait for this rank must end, if it must. @param thoroughly  Now and then: look
  /// everywhere.
  std::function<std::optional<Status>(int awaited, bool thoroughly)> check;
  bool oversubscribed = false;  ///< more ranks than cores
  /// How long it is busy. MPI moves bytes only while it is called.
  std::chrono::microseconds busy{300};
  /// For the log, where there is one: "rank 1 (/job:worker/task:1)".
  std::function<std::string(int awaited)> name = {};
  Clock::TimePoint deadline = Clock::TimePoint::max();

  /// Waits until `done()`. @param awaited  For messages.
  void until(const std::function<bool()>& done, const std::function<int()>& awaited) const;
};

/// Operations of MPI that are under way, for one call of one thread.
class MpiRequests {
 public:
  explicit MpiRequests(const MpiWait& wait) : wait_(&wait) {}

  /// @param peer  The rank that it waits for, in messages.
  /// @param begin  Makes MPI's call: `begin(MPI_Request*)`.
  template <typename Begin>
  void start(const char* call, int peer, Begin&& begin) {
    std::unique_lock lock(MpiProcess::get().calls(), std::try_to_lock);
    if (!lock) wait_->until([&] { return lock.try_lock(); }, [&] { return peer; });
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(begin(&request), call);
    operations_.push_back({call, peer, request});
  }

  /// Waits for all of them. If it throws, MPI continues with those that are left.
  void finish();

 private:
  struct Operation {
    const char* call;
    int peer;
    MPI_Request request;
  };

  bool done();

  const MpiWait* wait_;
  c10::SmallVector<Operation, 8> operations_;
  size_t next_ = 0;  // those before it are done
};

}  // namespace strata::collective
