#include "strata/runtime/stop_consensus.h"

#include <map>

#include "strata/core/mutex.h"

namespace strata {

MembershipChanged::MembershipChanged(int64_t finished_steps)
    : Error(ErrorCode::kAborted,
            str_cat("[preemption] a worker waits to take part, and the state after step ",
                    finished_steps, " is saved; pass this error to Strategy::recover")) {}

StopConsensus::~StopConsensus() = default;

namespace detail {
namespace {

Mutex g_mutex;

std::map<const ReplicaGroup*, std::weak_ptr<const MakeStopConsensus>>& known()
    STRATA_REQUIRES(g_mutex) {
  static std::map<const ReplicaGroup*, std::weak_ptr<const MakeStopConsensus>> groups;
  return groups;
}

}  // namespace

void set_stop_consensus(const ReplicaGroup& group,
                        const std::shared_ptr<const MakeStopConsensus>& make) {
  const MutexLock lock(g_mutex);
  std::erase_if(known(), [](const auto& each) { return each.second.expired(); });
  known()[&group] = make;
}

std::shared_ptr<StopConsensus> make_stop_consensus(const ReplicaGroup& group) {
  std::shared_ptr<const MakeStopConsensus> make;
  {
    const MutexLock lock(g_mutex);
    const auto found = known().find(&group);
    if (found != known().end()) make = found->second.lock();
  }
  return make ? (*make)() : nullptr;
}

}  // namespace detail
}  // namespace strata
