#include "collective/shared_memory/shared_memory_channel.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "collective/shared_memory/pages.h"
#include "core/call_notice.h"
#include "core/futex.h"
#include "core/spin.h"

namespace strata::collective {
namespace {

using namespace std::chrono_literals;

// So late does a sleeper see events without a wake-up: a peer that died, a failure elsewhere.
constexpr std::chrono::milliseconds kSlice{20};
constexpr std::chrono::microseconds kFirstSlice{100};

bool reached(uint32_t published, uint32_t step) {  // the numbers wrap around
  return static_cast<int32_t>(published - step) >= 0;
}

/// Busily, before a sleep, which takes longer than most ranks are late. The awaited rank may need
/// this core, even where there are enough of them, so it is offered soon.
template <typename Done>
bool watch(Done&& done, bool oversubscribed) {
  const int checks = oversubscribed ? 1 : 20;
  const auto end = std::chrono::steady_clock::now() + (oversubscribed ? 100us : 300us);
  while (true) {
    for (int i = 0; i < checks; ++i) {
      if (done()) return true;
      cpu_relax();
    }
    sched_yield();
    if (std::chrono::steady_clock::now() >= end) return done();
  }
}

}  // namespace

void SharedHeader::fail(const Status& status) {
  uint32_t none = kNone;
  if (!failure.compare_exchange_strong(none, kBeingWritten)) return;
  const size_t length = std::min(status.message().size(), failure_text.size());
  std::memcpy(failure_text.data(), status.message().data(), length);
  failure_length = static_cast<uint32_t>(length);
  failure_code = static_cast<uint32_t>(status.code());
  failure.store(kWritten, std::memory_order_release);
}

std::optional<Status> SharedHeader::failed() const {
  constexpr int kPatience = 10'000;  // for who writes; it may have died
  uint32_t state = failure.load(std::memory_order_acquire);
  for (int i = 0; i < kPatience && state == kBeingWritten; ++i) {
    cpu_relax();
    state = failure.load(std::memory_order_acquire);
  }
  if (state == kNone) return std::nullopt;
  if (state == kBeingWritten) return Status(ErrorCode::kUnavailable, "another rank has failed");
  return Status(
      static_cast<ErrorCode>(failure_code),
      std::string(failure_text.data(), std::min<size_t>(failure_length, failure_text.size())));
}

int SharedHeader::channel_of(uint64_t key) {
  for (uint64_t i = 0; i < kMaxChannels; ++i) {
    const auto index = static_cast<size_t>((key + i) % kMaxChannels);
    uint64_t owner = channels[index].load(std::memory_order_acquire);
    if (owner == 0 && channels[index].compare_exchange_strong(owner, key + 1)) owner = key + 1;
    if (owner == key + 1) return static_cast<int>(index);
  }
  detail::throw_error(
      ErrorCode::kResourceExhausted,
      str_cat("[collective] calls of more than ", kMaxChannels,
              " ids; use the same ids in each step of the training, they are matched in order"));
}

int64_t SharedMemoryChannel::area_bytes() {
  return whole_pages(kHeadBytes + (kSlotHead + kSlotBytes) * kSlots + kSlotBytes * kResultSlots);
}

int64_t SharedMemoryChannel::bytes(int ranks) { return area_bytes() * ranks; }

int64_t SharedMemoryChannel::offset(int index, int ranks) {
  return whole_pages(sizeof(SharedHeader)) + bytes(ranks) * index;
}

SharedMemoryChannel::SharedMemoryChannel(const wire::FileDescriptor& file, int index, int rank,
                                         int ranks)
    : memory_(file, offset(index, ranks), bytes(ranks)), rank_(rank), ranks_(ranks) {}

void SharedMemoryChannel::publish_header(const CallHeader& local) const {
  std::memcpy(slot_head(rank_, step_), &local, sizeof local);
}

SharedMemoryChannel::CallHeader SharedMemoryChannel::header_of(int rank, uint32_t step) const {
  CallHeader remote;
  std::memcpy(&remote, slot_head(rank, step), sizeof remote);
  return remote;
}

void SharedMemoryChannel::publish() {
  Cell& local = cell(rank_);
  // No fence between the two, which would wait for all that was written: see `await_rank`.
  local.published.store(step_++, std::memory_order_release);
  if (local.sleepers.load(std::memory_order_relaxed) != 0) futex_wake_all(local.published);
}

void SharedMemoryChannel::prepare(int64_t bytes) const {
  constexpr int64_t kLine = 64;
  const std::byte* const head = slot_head(rank_, step_ + 1);
  for (int64_t at = 0; at < kSlotHead + bytes; at += kLine) __builtin_prefetch(head + at, 1);
}

void SharedMemoryChannel::await(uint32_t step, const SharedWait& wait) const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank == rank_) continue;
    if (!reached(cell(rank).published.load(std::memory_order_acquire), step)) {
      await_rank(rank, step, wait);
    }
  }
}

void SharedMemoryChannel::await_rank(int rank, uint32_t step, const SharedWait& wait) const {
  Cell& other = cell(rank);
  const auto here = [&] { return reached(other.published.load(std::memory_order_acquire), step); };
  if (watch(here, wait.oversubscribed)) return;
  other.sleepers.fetch_add(1);
  const auto rise = [&] { other.sleepers.fetch_sub(1); };
  std::optional<detail::CallNotice> notice;
  // Who publishes just now may not have seen this sleeper, so the first sleep is short.
  for (std::chrono::nanoseconds limit = kFirstSlice;; limit = kSlice) {
    if (const auto end = wait.check(rank, limit == kSlice)) {
      rise();
      if (here()) return;  // it came, and then failed or ended
      end->throw_if_error();
    }
    if (wait.name && limit == kSlice) {
      const auto now = std::chrono::steady_clock::now();
      if (!notice) {
        const auto what = [&wait, rank] {
          return str_cat("[collective] waits for ", wait.name(rank),
                         "; has it stopped, or is it slower?");
        };
        notice.emplace(what, now, wait.deadline);
      }
      notice->look(now);
    }
    const uint32_t seen = other.published.load();
    if (!reached(seen, step)) futex_wait(other.published, seen, limit);
    if (here()) return rise();
  }
}

}  // namespace strata::collective
