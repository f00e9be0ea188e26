#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/clock.h"
#include "strata/core/error.h"
#include "wire/shared_memory.h"

namespace strata::collective {

/// Results of so many bytes leave the caches before they are read; they are written past them.
inline constexpr int64_t kStreamBytes = int64_t{8} << 20;

/// How a wait for other ranks ends without them.
struct SharedWait {
  /// @return why this rank may wait no longer for that one.
  /// @param slept  A while has passed: look at what costs something, too.
  std::function<std::optional<Status>(int rank, bool slept)> check = {};
  bool oversubscribed = false;  ///< there are more ranks than cores
  /// For the log: "rank 1 (/job:worker/task:1)".
  std::function<std::string(int rank)> name = {};
  Clock::TimePoint deadline = Clock::TimePoint::max();
};

/// What all channels share, at the start of the memory file.
struct SharedHeader {
  static constexpr int kMaxRanks = 1024;
  static constexpr int kMaxChannels = 4096;
  enum Failure : uint32_t { kNone, kBeingWritten, kWritten };

  std::atomic<uint32_t> failure{kNone};
  uint32_t failure_code = 0;
  uint32_t failure_length = 0;
  std::array<char, 4000> failure_text = {};
  std::array<std::atomic<uint32_t>, kMaxRanks> left = {};  ///< by rank: it has ended in order
  std::array<std::atomic<uint64_t>, kMaxChannels> channels = {};  ///< whose they are: key + 1, or 0

  /// The first failure stays.
  void fail(const Status& status);
  /// What has failed, if anything.
  std::optional<Status> failed() const;
  /// The channel of `key`, for as long as the memory lives. @throws Error  kResourceExhausted.
  int channel_of(uint64_t key);
};

/// The calls of one id, as one rank sees them: memory for every rank, and how far each has come.
///
/// A call is some steps, the same number on every rank. In a step a rank may write into its own
/// slot of that step, then `publish`es; then it may `await` that all others have published that
/// step, and read their slots. There are so many slots in turn that it need not wait until they
/// have been read: a small sum takes one barrier.
class SharedMemoryChannel {
 public:
  static constexpr uint32_t kSlots = 4;
  static constexpr uint32_t kResultSlots = 2;
  static constexpr int64_t kSlotBytes = int64_t{64} << 10;

  /// Of channel `index` in the file; the header comes first.
  static int64_t offset(int index, int ranks);
  static int64_t bytes(int ranks);

  SharedMemoryChannel(const wire::FileDescriptor& file, int index, int rank, int ranks);

  int rank() const { return rank_; }
  int num_ranks() const { return ranks_; }

  /// The step that this rank is in. It awaits step s - 1 in every step but a call's first. So in
  /// step s, before it has awaited anything, all others are through with step s - 3, in which they
  /// read what was written in step s - 4: its slot is free.
  uint32_t step() const { return step_; }

  std::byte* slot(int rank, uint32_t step) const { return slot_head(rank, step) + kSlotHead; }
  /// Written after others were awaited, so two suffice.
  std::byte* result_slot(int rank, uint32_t step) const {
    return area(rank) + kHeadBytes + (kSlotHead + kSlotBytes) * kSlots +
           kSlotBytes * static_cast<int64_t>(step % kResultSlots);
  }

  /// What a rank says of a call, in its first step.
  struct CallHeader {
    uint64_t call;
    uint32_t note;
  };
  /// This rank's, at the front of its slot: it travels with the data.
  void publish_header(const CallHeader& local) const;
  CallHeader header_of(int rank, uint32_t step) const;

  /// This rank is through with its step; the next begins.
  void publish();
  /// Of a call in its second and last step: fetches the first `bytes` of the next call's slot,
  /// which the others have read, while there is something else to do.
  void prepare(int64_t bytes) const;
  /// The same at the end of a call, if no thread waits for it: costs nothing.
  void skip() { ++step_; }
  /// Until all others have published `step`. @throws Error  what `wait.check` returns.
  void await(uint32_t step, const SharedWait& wait) const;

 private:
  static constexpr int64_t kHeadBytes = 64;

  static constexpr int64_t kSlotHead = 64;

  struct alignas(64) Cell {
    std::atomic<uint32_t> published{0};  // a futex
    std::atomic<uint32_t> sleepers{0};   // on it
  };

  static int64_t area_bytes();
  std::byte* area(int rank) const { return memory_.data() + area_bytes() * rank; }
  Cell& cell(int rank) const { return *reinterpret_cast<Cell*>(area(rank)); }
  std::byte* slot_head(int rank, uint32_t step) const {
    return area(rank) + kHeadBytes + (kSlotHead + kSlotBytes) * static_cast<int64_t>(step % kSlots);
  }
  void await_rank(int rank, uint32_t step, const SharedWait& wait) const;

  wire::SharedMapping memory_;
  int rank_;
  int ranks_;
  uint32_t step_ = 1;
};

}  // namespace strata::collective
