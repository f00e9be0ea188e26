#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "strata/core/error.h"
#include "strata/core/export.h"

namespace strata::wire {

/// The key that matches sends with receives: (channel, id). Messages with equal tags are matched in
/// the order in which they were sent and received; others never wait for each other.
///
/// `fingerprint` describes what the caller sends or expects (a hash of operation, shape and dtype).
/// If those of the two sides differ, nothing is delivered: both operations, and all present and
/// later ones on that channel of that connection, fail with kFailedPrecondition and a message that
/// has both.
struct Tag {
  uint32_t channel = 0;
  uint32_t id = 0;
  uint64_t fingerprint = 0;
};

namespace detail {

/// The state behind a Transfer. References are counted by hand: one is the handle's, one is the
/// connection's while it is pending.
class STRATA_API Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  const Status& status() const noexcept { return status_; }  // once done
  size_t arrived() const noexcept { return arrived_.load(std::memory_order_acquire); }
  /// Ends it; when this returns, its buffer is no longer accessed. Does nothing if it is done.
  virtual void cancel() = 0;
  /// Prints "receive of 4096 bytes (channel 1, id 7) from /job:worker/task:2 at 10.0.0.3:4444".
  virtual std::string describe() const = 0;

  void add_reference() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void drop_reference() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) recycle();
  }

 protected:
  virtual ~Operation() = default;
  virtual void recycle() noexcept { delete this; }
  void set_arrived(size_t bytes) noexcept { arrived_.store(bytes, std::memory_order_release); }
  /// Called at most once.
  void finish(Status status) {
    status_ = std::move(status);
    done_.store(true, std::memory_order_release);
  }

 private:
  std::atomic<uint32_t> references_{1};
  std::atomic<bool> done_{false};
  std::atomic<size_t> arrived_{0};
  Status status_;
};

}  // namespace detail

/// A send or a receive that was started, and may be done. Its buffer must live until `done()`. Its
/// destructor cancels it if it is pending.
/// Threads: one at a time, except for `done`.
class STRATA_API Transfer {
 public:
  /// An empty transfer: done, and ok.
  Transfer() = default;
  Transfer(Transfer&& other) noexcept : operation_(std::exchange(other.operation_, nullptr)) {}
  Transfer& operator=(Transfer&& other) noexcept {
    if (this != &other) {
      reset();
      operation_ = std::exchange(other.operation_, nullptr);
    }
    return *this;
  }
  ~Transfer() { reset(); }

  /// Costs one load. The data of a receive is visible to the thread that has seen it done.
  bool done() const noexcept { return operation_ == nullptr || operation_->done(); }

  /// For a receive, the number of bytes at the front of its buffer that have arrived and may be
  /// read already; for a send, the number that have left the process.
  size_t arrived() const noexcept { return operation_ == nullptr ? 0 : operation_->arrived(); }

  /// Its outcome. @throws Error kFailedPrecondition: it is not done.
  Status status() const;

  /// Ends it with kCancelled, unless it is done; afterwards its buffer is no longer accessed. The
  /// other side of a cancelled send fails with kCancelled. A cancelled receive keeps its place in
  /// the order: the message that matches it is discarded when it arrives.
  void cancel() {
    if (operation_ != nullptr && !operation_->done()) operation_->cancel();
  }

  /// Describes it for messages: operation, size and peer. Empty for an empty transfer.
  std::string describe() const { return operation_ == nullptr ? "" : operation_->describe(); }

  /// Takes over one reference; for implementations.
  explicit Transfer(detail::Operation* operation) : operation_(operation) {}

 private:
  void reset() noexcept {
    if (operation_ == nullptr) return;
    cancel();
    std::exchange(operation_, nullptr)->drop_reference();
  }

  detail::Operation* operation_ = nullptr;
};

}  // namespace strata::wire
