#include "collective/shared_lane.h"

#include <algorithm>
#include <cstring>

#include "collective/futex.h"
#include "strata/core/spin.h"

namespace strata::collective {
namespace {

// So late does a sleeper see what nobody wakes it for: a peer that died, a failure elsewhere.
constexpr std::chrono::milliseconds kSlice{20};

bool reached(uint32_t published, uint32_t step) {  // the numbers wrap around
  return static_cast<int32_t>(published - step) >= 0;
}

constexpr int64_t kPage = 4096;
constexpr int64_t pages(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

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
  const uint32_t state = failure.load(std::memory_order_acquire);
  if (state == kNone) return std::nullopt;
  if (state == kBeingWritten) return Status(ErrorCode::kUnavailable, "another rank has failed");
  return Status(
      static_cast<ErrorCode>(failure_code),
      std::string(failure_text.data(), std::min<size_t>(failure_length, failure_text.size())));
}

int SharedHeader::lane_of(uint64_t key) {
  for (uint64_t i = 0; i < kMostLanes; ++i) {
    const auto index = static_cast<size_t>((key + i) % kMostLanes);
    uint64_t owner = lanes[index].load(std::memory_order_acquire);
    if (owner == 0 && lanes[index].compare_exchange_strong(owner, key + 1)) owner = key + 1;
    if (owner == key + 1) return static_cast<int>(index);
  }
  detail::throw_error(
      ErrorCode::kResourceExhausted,
      str_cat("[collective] calls of more than ", kMostLanes,
              " ids; use the same ids in each step of the training, they are matched in order"));
}

int64_t SharedLane::bytes(int ranks) { return area_bytes() * ranks; }

int64_t SharedLane::offset(int index, int ranks) {
  return pages(sizeof(SharedHeader)) + bytes(ranks) * index;
}

SharedLane::SharedLane(const wire::FileDescriptor& file, int index, int rank, int ranks)
    : memory_(file, offset(index, ranks), bytes(ranks)), rank_(rank), ranks_(ranks) {}

void SharedLane::announce(uint64_t call, uint32_t note) const {
  Cell& mine = cell(rank_);
  mine.calls[step_ % kSlots].store(call, std::memory_order_relaxed);
  mine.notes[step_ % kSlots].store(note, std::memory_order_relaxed);
}

SharedLane::Announcement SharedLane::announcement(int rank, uint32_t step) const {
  const Cell& of = cell(rank);
  return {.call = of.calls[step % kSlots].load(std::memory_order_relaxed),
          .note = of.notes[step % kSlots].load(std::memory_order_relaxed)};
}

void SharedLane::publish() {
  Cell& mine = cell(rank_);
  // Sequentially consistent with a sleeper's count: one of the two sees the other.
  mine.published.exchange(step_++);
  if (mine.sleepers.load() != 0) futex_wake_all(mine.published);
}

void SharedLane::await(uint32_t step, const SharedWait& wait) const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank == rank_) continue;
    if (!reached(cell(rank).published.load(std::memory_order_acquire), step)) {
      await_rank(rank, step, wait);
    }
  }
}

void SharedLane::await_rank(int rank, uint32_t step, const SharedWait& wait) const {
  Cell& other = cell(rank);
  const auto here = [&] { return reached(other.published.load(std::memory_order_acquire), step); };
  if (spin_until(here, wait.spin)) return;
  for (bool slept = false;; slept = true) {
    if (const auto end = wait.check(rank, slept)) {
      if (here()) return;  // it came, and then failed or ended
      end->throw_if_error();
    }
    other.sleepers.fetch_add(1);
    const uint32_t seen = other.published.load();
    if (!reached(seen, step)) futex_wait(other.published, seen, kSlice);
    other.sleepers.fetch_sub(1);
    if (here()) return;
  }
}

}  // namespace strata::collective
