#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collective/in_process/run_slots.h"
#include "core/clock.h"
#include "core/mutex.h"
#include "strata/core/error.h"
#include "strata/core/export.h"

namespace strata::collective {

/// Thrown out of a wait whose round was ended by another participant's error. It unwinds a
/// bystander's replica function and no more; a function that swallows it gets it again at the next
/// barrier. (It is a std::exception, because autograd's engine cleans up after no other.)
struct STRATA_API RoundAborted : std::exception {
  const char* what() const noexcept override;
};

/// The barrier of the threads of one process that train together. Every collective, merge call and
/// optimizer step consists of one or more barriers, to each of which a participant brings its
/// `Call`.
///
/// A round is the time between `begin_round` and the return of every participant's function. Within
/// it, participants must enter the same barriers in the same order. A participant that leaves
/// early, brings a different call or throws ends the round for all, so that no other waits for it.
///
/// Cost: a barrier of two threads that arrive together takes 0.1-0.3 us (one cache line each way).
class STRATA_API Rendezvous {
 public:
  /// A participant's contribution to a barrier. Two calls belong together when `key` and `name`
  /// agree.
  struct Call {
    std::string_view name;  ///< "all_reduce", for messages.
    uint64_t key = 0;       ///< Fingerprint: operation, shapes, dtypes, object.
    /// Data for the completion; lives until the caller's `arrive` returns.
    void* payload = nullptr;
    /// Prints details for the error when keys differ.
    std::string (*describe)(const Call&) = nullptr;
  };

  struct Options {
    std::chrono::milliseconds timeout = std::chrono::minutes(30);  ///< Bounds every wait.
    /// Released while waiting; null when each participant has a core.
    RunSlots* permits = nullptr;
    /// The clock of `timeout`; null: the system's. Must outlive the rendezvous.
    Clock* clock = nullptr;
  };

  Rendezvous(int num_participants, const Options& options);

  int num_participants() const { return static_cast<int>(calls_.size()); }

  /// Starts a round with every participant in it. Call while no participant is inside.
  void begin_round();

  /// Waits for all participants. The last one to arrive runs `completion()` first, while the others
  /// still wait, and reads every call through `call(i)`.
  ///
  /// @throws RoundAborted: another participant ended the round.
  /// @throws Error  kFailedPrecondition: a participant left the round, or brought another call.
  ///                kDeadlineExceeded: names the absent participants.
  template <typename Completion>
  void arrive(int id, const Call& call, Completion&& completion) {
    const uint64_t round = generation_.load(std::memory_order_acquire);
    if (!enter(id, call)) return wait(id, call, round);
    try {
      check_calls_agree();
      std::forward<Completion>(completion)();
    } catch (...) {
      abort(Status::from_current_exception());
      throw;
    }
    release();
  }
  void arrive(int id, const Call& call) {
    arrive(id, call, [] {});
  }

  /// The call that participant `id` brought to the current barrier.
  const Call& call(int id) const { return *calls_[static_cast<size_t>(id)].call.load(); }

  /// Marks participant `id`'s function as returned. If others wait for it, the round ends with an
  /// error.
  void leave(int id);

  /// Ends the round for all participants. The first error is kept.
  void abort(Status status);

  /// The error that ended the round; ok if it has not failed.
  Status status() const;

 private:
  struct alignas(64) Slot {
    // Atomic: a participant may enter the next barrier while another still reads this one's calls.
    std::atomic<const Call*> call{nullptr};
    std::atomic<uint64_t> arrivals{0};  // in this round, for messages
  };

  bool enter(int id, const Call& call);  // true: this is the last to arrive
  void wait(int id, const Call& call, uint64_t round);
  void release();
  void check_calls_agree() const;
  void fail_different_numbers();
  std::string absentees(int id) const;

  const Options options_;
  Clock& clock_;
  const bool spin_;
  std::vector<Slot> calls_;

  alignas(64) std::atomic<int> arrived_{0};
  std::atomic<int> left_{0};
  alignas(64) std::atomic<uint64_t> generation_{0};
  std::atomic<bool> aborted_{false};

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::atomic<int> sleepers_{0};
  Status status_ STRATA_GUARDED_BY(mutex_);
};

}  // namespace strata::collective
