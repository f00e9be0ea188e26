#include "cluster/peer_authorizer.h"

#include <algorithm>
#include <utility>

namespace strata::cluster {

Status PeerAuthorizer::authorize(const wire::Hello& peer) const {
  const auto refuse = [&](const std::string& why) {
    return Status(ErrorCode::kPermissionDenied,
                  str_cat("[cluster] ", task_.to_string(), " refuses ", peer.task, ": ", why));
  };
  const TaskId& leader = members_.front();
  try {
    (void)TaskId::parse(peer.task);
  } catch (const Error&) {
    return refuse("that is no name of a task");
  }
  if (peer.purpose == kControl) {
    if (task_ == leader) return {};
    return refuse(str_cat("it is not the leader; ", leader.to_string(), " at ", leader_address_,
                          " is; give all tasks the same cluster spec"));
  }
  if (!peer.purpose.starts_with(kData))
    return refuse(str_cat("got purpose \"", peer.purpose, "\""));
  if (std::ranges::count(members_, TaskId::parse(peer.task)) == 0) {
    return refuse("it is not in the cluster");
  }
  return {};
}

void PeerAuthorizer::arrived() {
  const MutexLock lock(mutex_);
  arrived_ = true;
  arrives_.notify_all();
}

bool PeerAuthorizer::wait(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  if (!arrives_.wait(lock, stop, [&]() STRATA_REQUIRES(mutex_) { return arrived_; })) return false;
  arrived_ = false;
  return true;
}

}  // namespace strata::cluster
