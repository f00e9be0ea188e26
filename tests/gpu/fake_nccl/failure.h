#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "gpu/fake_nccl/exported_nccl.h"

namespace strata::test::fake_nccl {

/// An error of this communicator, thrown on its thread.
struct Failure {
  ncclResult_t code;
  std::string text;
};

/// Thrown by waits that an abort has ended.
struct Stopped {};

/// Thrown by waits on a communicator that has failed already.
struct Broken {};

/// Ends waits: those on sockets, which poll fd(), and those on conditions, whose owner wakes them.
class StopSignal {
 public:
  StopSignal() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  ~StopSignal() { ::close(fd_); }

  void request() {
    requested_ = true;
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof(one));
  }
  bool requested() const { return requested_; }
  int fd() const { return fd_; }  ///< Readable from the request on.

 private:
  std::atomic<bool> requested_ = false;
  int fd_;
};

/// Whether a communicator works: its first error, and whether it is to stop. Threads: any.
class Health {
 public:
  StopSignal stop;

  void fail(const Failure& failure) {
    const std::lock_guard lock(mutex_);
    if (failure_.code == ncclSuccess) failure_ = failure;
  }
  Failure failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  bool failed() const { return failure().code != ncclSuccess; }

 private:
  mutable std::mutex mutex_;
  Failure failure_{ncclSuccess, ""};
};

}  // namespace strata::test::fake_nccl
