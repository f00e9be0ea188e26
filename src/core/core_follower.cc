#include "core/core_follower.h"

#include <sched.h>

#include "core/current_core.h"

namespace strata::detail {
namespace {

// Where several cores are idle the scheduler may take another one each time: then a move is a
// small part of so many times' work.
constexpr int kMostApart = 8;

}  // namespace

void CoreFollower::follow(uint32_t core) {
  if (core == 0 || core == current_core()) {
    apart_ = 0;
    return;
  }
  if (++apart_ < kMostApart) return;
  apart_ = 0;
  cpu_set_t allowed;
  if (core > CPU_SETSIZE || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0 ||
      !CPU_ISSET(core - 1, &allowed)) {
    return;
  }
  cpu_set_t there;
  CPU_ZERO(&there);
  CPU_SET(core - 1, &there);
  if (::sched_setaffinity(0, sizeof there, &there) != 0) return;
  ::sched_setaffinity(0, sizeof allowed, &allowed);
}

}  // namespace strata::detail
