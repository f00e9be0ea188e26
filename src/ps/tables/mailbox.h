#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/adaptive_spin.h"
#include "core/mutex.h"

namespace strata::ps {

/// Room for one message in memory that two processes map. The one end puts a message there and wakes
/// the other, which takes it. Neither trusts the other: what is there is checked and copied before
/// it is read. Threads: any.
class MessageSlot {
 public:
  static constexpr size_t kMostBytes = 4096 - 2 * sizeof(uint32_t);
  struct alignas(64) Memory {
    std::atomic<uint32_t> bytes;     // of the message that is there; 0: none
    std::atomic<uint32_t> sleepers;  // whether the taker sleeps, or is about to, until there is one
    std::byte text[kMostBytes];
  };

  /// @param memory  Zeros at first. The caller holds it.
  explicit MessageSlot(Memory* memory) : memory_(memory) {}

  /// @return false: it is too long, or the last one has not been taken; it has to go another way.
  bool put(std::string_view message) STRATA_EXCLUDES(put_mutex_);
  /// @throws Error  kDataLoss: what is there is no message.
  std::optional<std::string> take();
  /// Waits until a message is there, at most for about `limit`; may return early.
  void wait(std::chrono::nanoseconds limit);
  /// Has a thread that waits return soon.
  void interrupt();

 private:
  Memory* const memory_;
  Mutex put_mutex_;
  AdaptiveSpin spin_;
};

/// How a worker and a server of its host exchange requests and answers whose data are in shared
/// memory. A connection between them takes two system calls each way and wakes the server where the
/// server ran last, which may be the core of a worker that computes. From the mailbox a thread of
/// its own takes them, which wakes where the worker that asks is about to sleep.
struct Mailbox {
  struct Memory {
    MessageSlot::Memory request;
    MessageSlot::Memory reply;
  };

  /// @param block  Of `sizeof(Memory)` bytes, aligned for it, zeros at first.
  explicit Mailbox(std::shared_ptr<std::byte> block)
      : request(&reinterpret_cast<Memory*>(block.get())->request),
        reply(&reinterpret_cast<Memory*>(block.get())->reply),
        memory(std::move(block)) {}

  MessageSlot request;  ///< The worker's, for the server.
  MessageSlot reply;    ///< The server's, for the worker.
  const std::shared_ptr<std::byte> memory;
};

}  // namespace strata::ps
