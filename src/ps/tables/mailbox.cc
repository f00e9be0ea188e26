#include "ps/tables/mailbox.h"

#include <cstring>

#include "core/futex.h"
#include "core/spin.h"
#include "strata/core/error.h"

namespace strata::ps {

bool MessageSlot::put(std::string_view message) {
  const MutexLock lock(put_mutex_);
  if (message.empty() || message.size() > kMostBytes || memory_->bytes.load() != 0) return false;
  std::memcpy(memory_->text, message.data(), message.size());
  memory_->bytes.store(static_cast<uint32_t>(message.size()));
  if (memory_->sleepers.load() != 0) futex_wake_all(memory_->bytes);
  return true;
}

std::optional<std::string> MessageSlot::take() {
  const uint32_t bytes = memory_->bytes.load(std::memory_order_acquire);
  if (bytes == 0) return std::nullopt;
  STRATA_CHECK(bytes <= kMostBytes, kDataLoss, "[ps] mailbox: got a message of ", bytes,
               " bytes; there is room for ", kMostBytes);
  std::string message(reinterpret_cast<const char*>(memory_->text), bytes);
  memory_->bytes.store(0, std::memory_order_release);
  return message;
}

void MessageSlot::wait(std::chrono::nanoseconds limit) {
  const auto there = [this] { return memory_->bytes.load(std::memory_order_acquire) != 0; };
  if (there()) return;
  const auto since = std::chrono::steady_clock::now();
  if (!spin_.pays() || !spin_until(there, AdaptiveSpin::kLimit)) {
    memory_->sleepers.store(1);  // before it looks once more: `put` looks in the other order
    if (memory_->bytes.load() == 0) futex_wait(memory_->bytes, 0, limit);
    memory_->sleepers.store(0);
  }
  if (there()) spin_.count(std::chrono::steady_clock::now() - since);
}

void MessageSlot::interrupt() { futex_wake_all(memory_->bytes); }

}  // namespace strata::ps
