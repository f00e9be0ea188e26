#include "ps/tables/core_visit.h"

#include <limits>

#include "core/current_core.h"

namespace strata::ps {

CoreVisit::CoreVisit(uint32_t core) {
  if (core == 0 || core > CPU_SETSIZE || core == strata::detail::current_core()) return;
  if (::sched_getaffinity(0, sizeof before_, &before_) != 0) return;
  if (!CPU_ISSET(core - 1, &before_)) return;
  cpu_set_t there;
  CPU_ZERO(&there);
  CPU_SET(core - 1, &there);
  moved_ = ::sched_setaffinity(0, sizeof there, &there) == 0;
}

CoreVisit::~CoreVisit() {
  if (moved_) ::sched_setaffinity(0, sizeof before_, &before_);
}

int allowed_cores() {
  cpu_set_t set;
  // More cores than a cpu_set_t has are more than enough.
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return std::numeric_limits<int>::max();
  return CPU_COUNT(&set);
}

}  // namespace strata::ps
