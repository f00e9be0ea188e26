#include "collective/in_process/rendezvous.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/fake_clock.h"
#include "support/replicas.h"

namespace strata::collective {
namespace {

using namespace std::chrono_literals;

Rendezvous::Call named(std::string_view name, uint64_t key = 0, void* payload = nullptr) {
  return {.name = name, .key = key, .payload = payload};
}

::testing::AssertionResult ended_with(const Rendezvous& rendezvous, ErrorCode code,
                                      std::initializer_list<std::string_view> parts) {
  return throws(code, parts, [&] { rendezvous.status().throw_if_error(); });
}

TEST(RendezvousTest, LastToArriveRunsTheCompletionWithEveryCallAtHand) {
  constexpr int kParticipants = 4;
  constexpr int kMeetings = 300;
  Rendezvous rendezvous(kParticipants, {});
  rendezvous.begin_round();
  int completions = 0;  // guarded by the barriers
  int wrong = 0;
  std::vector<int> seen(kParticipants, 0);
  on_threads(kParticipants, [&](int id) {
    int local = 0;
    for (int i = 0; i < kMeetings; ++i) {
      local = 1000 * id + i;
      int result = -1;
      std::pair<int*, int*> visit{&local, &result};
      rendezvous.arrive(id, named("count", static_cast<uint64_t>(i), &visit), [&] {
        ++completions;
        int sum = 0;
        for (int p = 0; p < kParticipants; ++p) {
          sum += *static_cast<std::pair<int*, int*>*>(rendezvous.call(p).payload)->first;
        }
        for (int p = 0; p < kParticipants; ++p) {
          *static_cast<std::pair<int*, int*>*>(rendezvous.call(p).payload)->second = sum;
        }
      });
      if (result != 6000 + kParticipants * i) ++seen[static_cast<size_t>(id)];
    }
  });
  for (const int each : seen) wrong += each;
  EXPECT_EQ(completions, kMeetings);
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(rendezvous.status().ok());
}

TEST(RendezvousTest, NobodyPassesBeforeEverybodyHasArrived) {
  Rendezvous rendezvous(3, {});
  std::atomic<int> arrived{0};
  std::atomic<int> early{0};
  for (int round = 0; round < 50; ++round) {
    rendezvous.begin_round();
    arrived = 0;
    on_threads(3, [&](int id) {
      ++arrived;
      rendezvous.arrive(id, named("barrier"));
      if (arrived.load() != 3) ++early;
      rendezvous.leave(id);
    });
  }
  EXPECT_EQ(early, 0);
}

TEST(RendezvousTest, DifferentCallsEndTheRoundForAll) {
  Rendezvous rendezvous(2, {});
  rendezvous.begin_round();
  std::atomic<int> errors{0};
  std::atomic<int> bystanders{0};
  on_threads(2, [&](int id) {
    try {
      Rendezvous::Call call = named(id == 0 ? "all_reduce" : "all_gather", 7);
      if (id == 1)
        call.describe = [](const Rendezvous::Call&) { return std::string("all_gather of [3]"); };
      rendezvous.arrive(id, call);
    } catch (const Error&) {
      ++errors;
    } catch (const RoundAborted&) {
      ++bystanders;
    }
  });
  EXPECT_EQ(errors, 1);
  EXPECT_EQ(bystanders, 1);
  EXPECT_TRUE(ended_with(rendezvous, ErrorCode::kFailedPrecondition,
                         {"[rendezvous] replicas disagree", "replica 0 calls all_reduce",
                          "replica 1 calls all_gather of [3]", "in the same order"}));
}

TEST(RendezvousTest, DifferentKeysOfOneCallEndTheRound) {
  Rendezvous rendezvous(2, {});
  rendezvous.begin_round();
  on_threads(2, [&](int id) {
    EXPECT_ANY_THROW(rendezvous.arrive(id, named("all_reduce", static_cast<uint64_t>(id))));
  });
  EXPECT_TRUE(ended_with(rendezvous, ErrorCode::kFailedPrecondition, {"replicas disagree"}));
}

TEST(RendezvousTest, LeavingWhileOthersWaitEndsTheRound) {
  Rendezvous rendezvous(3, {});
  rendezvous.begin_round();
  std::atomic<int> bystanders{0};
  on_threads(3, [&](int id) {
    if (id == 2) return rendezvous.leave(id);
    try {
      rendezvous.arrive(id, named("merge_call"));
    } catch (const RoundAborted&) {
      ++bystanders;
    }
  });
  EXPECT_EQ(bystanders, 2);
  EXPECT_TRUE(
      ended_with(rendezvous, ErrorCode::kFailedPrecondition,
                 {"Some replicas made a different number of replica_context().merge_call() calls",
                  "take the same path"}));
}

TEST(RendezvousTest, ArrivingAfterSomebodyLeftEndsTheRound) {
  Rendezvous rendezvous(2, {});
  rendezvous.begin_round();
  rendezvous.leave(1);
  EXPECT_TRUE(rendezvous.status().ok());  // who leaves last needs nobody
  EXPECT_THROW(rendezvous.arrive(0, named("merge_call")), RoundAborted);
  EXPECT_TRUE(ended_with(rendezvous, ErrorCode::kFailedPrecondition, {"replicas 0.. made 1, 0"}));
}

// More participants than cores: one is often stopped between its arrival and what it looks at next,
// while the others meet, go on and leave.
TEST(RendezvousTest, LeavingAfterTheLastMeetingDisturbsNobody) {
  constexpr int kParticipants = 8;
  constexpr int kRounds = 3000;
  Rendezvous rendezvous(kParticipants, {});
  std::barrier<> round(kParticipants);
  std::atomic<int> aborted{0};
  on_threads(kParticipants, [&](int id) {
    for (int i = 0; i < kRounds; ++i) {
      round.arrive_and_wait();
      if (id == 0) rendezvous.begin_round();
      round.arrive_and_wait();
      try {
        rendezvous.arrive(id, named("step", static_cast<uint64_t>(i)));
      } catch (const RoundAborted&) {
        ++aborted;
      }
      rendezvous.leave(id);
    }
  });
  EXPECT_EQ(aborted, 0) << rendezvous.status().message();
}

// A completion works with what the waiters brought; they may not go away under it.
TEST(RendezvousTest, NobodysDeadlinePassesWhileTheLastOneIsAtWork) {
  testing::FakeClock clock;
  Rendezvous rendezvous(2, {.timeout = 20ms, .clock = &clock});
  rendezvous.begin_round();
  int found = 0;
  on_threads(2, [&](int id) {
    int brought = 3 + id;
    rendezvous.arrive(id, named("step", 0, &brought), [&] {
      const auto end = std::chrono::steady_clock::now() + 30s;
      while (clock.missed_deadlines() < 3 && std::chrono::steady_clock::now() < end) {
        clock.advance(20ms);
        std::this_thread::yield();
      }
      for (int i = 0; i < 2; ++i) found += *static_cast<int*>(rendezvous.call(i).payload);
    });
    brought = -100;
    rendezvous.leave(id);
  });
  EXPECT_GE(clock.missed_deadlines(), 3);
  EXPECT_EQ(found, 7);
  EXPECT_TRUE(rendezvous.status().ok()) << rendezvous.status().message();
}

TEST(RendezvousTest, AbortEndsTheWaitAndTheFirstErrorIsKept) {
  Rendezvous rendezvous(2, {});
  rendezvous.begin_round();
  on_threads(2, [&](int id) {
    if (id == 0) {
      EXPECT_THROW(rendezvous.arrive(id, named("all_reduce")), RoundAborted);
    } else {
      rendezvous.abort(Status(ErrorCode::kDataLoss, "first"));
      rendezvous.abort(Status(ErrorCode::kInternal, "second"));
    }
  });
  EXPECT_TRUE(ended_with(rendezvous, ErrorCode::kDataLoss, {"first"}));
  EXPECT_THROW(rendezvous.arrive(1, named("all_reduce")), RoundAborted);  // and all that come later

  rendezvous.begin_round();
  EXPECT_TRUE(rendezvous.status().ok());
  on_threads(2, [&](int id) { rendezvous.arrive(id, named("all_reduce")); });
}

TEST(RendezvousTest, ThrowingCompletionEndsTheRoundWithItsOwnException) {
  Rendezvous rendezvous(2, {});
  rendezvous.begin_round();
  std::atomic<int> thrown{0};
  std::atomic<int> bystanders{0};
  on_threads(2, [&](int id) {
    try {
      rendezvous.arrive(id, named("merge_call"), [] { throw std::out_of_range("mine"); });
    } catch (const std::out_of_range&) {
      ++thrown;
    } catch (const RoundAborted&) {
      ++bystanders;
    }
  });
  EXPECT_EQ(thrown, 1);
  EXPECT_EQ(bystanders, 1);
  EXPECT_THROW(rendezvous.status().throw_if_error(), std::out_of_range);
}

TEST(RendezvousTest, WaitEndsAtItsDeadlineAndNamesWhoDidNotCome) {
  Rendezvous rendezvous(3, {.timeout = 20ms});
  rendezvous.begin_round();
  on_threads(1,
             [&](int) { EXPECT_THROW(rendezvous.arrive(1, named("all_reduce")), RoundAborted); });
  EXPECT_TRUE(ended_with(rendezvous, ErrorCode::kDeadlineExceeded,
                         {"[rendezvous] all_reduce: replica 1 waited 0.02 s for replica(s) 0 2;",
                          "raise the strategy's timeout"}));
}

TEST(RendezvousTest, WaitersGiveTheirPermitsBack) {
  for (const int count : {1, 2}) {
    RunSlots permits(count);
    Rendezvous rendezvous(5, {.permits = &permits});
    rendezvous.begin_round();
    std::atomic<int> computing{0};
    std::atomic<int> most{0};
    on_threads(5, [&](int id) {
      permits.acquire();
      for (int i = 0; i < 100; ++i) {
        const int now = ++computing;
        int before = most.load();
        while (before < now && !most.compare_exchange_weak(before, now)) {
        }
        --computing;
        rendezvous.arrive(id, named("step", static_cast<uint64_t>(i)));
      }
      rendezvous.leave(id);
      permits.release();
    });
    EXPECT_TRUE(rendezvous.status().ok());
    EXPECT_LE(most, count);
  }
}

TEST(RendezvousTest, OneParticipantMeetsItself) {
  Rendezvous rendezvous(1, {});
  rendezvous.begin_round();
  int completions = 0;
  for (int i = 0; i < 3; ++i) rendezvous.arrive(0, named("alone"), [&] { ++completions; });
  EXPECT_EQ(completions, 3);
}

}  // namespace
}  // namespace strata::collective
