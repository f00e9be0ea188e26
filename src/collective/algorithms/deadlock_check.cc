#include "collective/algorithms/deadlock_check.h"

#include <algorithm>
#include <vector>

#include "strata/core/str_cat.h"

namespace strata::collective {
namespace {

struct Rank {
  size_t next = 0;            // step
  std::vector<int> sends;     // to whom, those that steps have begun
  size_t sent = 0;            // of sends
  std::vector<int> receives;  // from whom, all
  size_t received = 0;        // of receives
  size_t taken = 0;           // by steps
};

/// Steps until one must wait. @return whether there was one.
bool go_on(Rank& rank, const std::vector<Step>& steps) {
  const size_t before = rank.next;
  for (; rank.next < steps.size(); ++rank.next) {
    const Step& step = steps[rank.next];
    if (step.kind == Step::Kind::kSend) {
      rank.sends.push_back(step.peer);
    } else if (step.kind == Step::Kind::kReceive) {
      if (rank.taken == rank.received) break;
      ++rank.taken;
    } else if (rank.sent < rank.sends.size()) {
      break;  // it may write what is still being sent
    }
  }
  return rank.next > before;
}

}  // namespace

std::string find_deadlock(const Schedule& schedule) {
  std::vector<Rank> ranks(schedule.ranks.size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (const Step& step : schedule.ranks[r]) {
      if (step.kind == Step::Kind::kReceive) ranks[r].receives.push_back(step.peer);
    }
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t r = 0; r < ranks.size(); ++r) {
      Rank& rank = ranks[r];
      moved |= go_on(rank, schedule.ranks[r]);
      while (rank.sent < rank.sends.size()) {
        Rank& peer = ranks[static_cast<size_t>(rank.sends[rank.sent])];
        if (peer.received == peer.receives.size() ||
            peer.receives[peer.received] != static_cast<int>(r)) {
          break;
        }
        ++peer.received;
        ++rank.sent;
        moved = true;
      }
    }
  }
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].next < schedule.ranks[r].size()) {
      return str_cat("one message at a time, rank ", r, " would wait for ever at its step ",
                     ranks[r].next);
    }
  }
  return {};
}

}  // namespace strata::collective
