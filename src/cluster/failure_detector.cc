#include "cluster/failure_detector.h"

#include <algorithm>

#include "strata/core/error.h"

namespace strata::cluster {

void check_liveness(Clock::Duration liveness, std::string_view where) {
  STRATA_CHECK(liveness >= kShortestLiveness, kInvalidArgument, where,
               ": got a liveness interval of ", std::chrono::duration<double>(liveness).count(),
               " s; expected 0.1 s at least");
}

HeartbeatTiming control_timing(Clock::Duration liveness) {
  return {.silence_limit = liveness * 9 / 10,
          .heartbeat_interval = std::min<Clock::Duration>(liveness / 8, kLongestHeartbeatInterval),
          .forgives_suspension = true};
}

HeartbeatTiming table_timing(Clock::Duration liveness) {
  return {
      .silence_limit = liveness, .heartbeat_interval = liveness / 4, .forgives_suspension = false};
}

FailureDetector::FailureDetector(const HeartbeatTiming& timing, std::optional<TimePoint> started)
    : timing_(timing), ticked_(started), next_heartbeat_(started.value_or(TimePoint())) {}

void FailureDetector::add(Peer peer, TimePoint now) { peers_[peer] = {.heard = now}; }

void FailureDetector::heard(Peer peer, TimePoint now) {
  if (const auto found = peers_.find(peer); found != peers_.end()) found->second.heard = now;
}

void FailureDetector::received(Peer peer, uint64_t total, TimePoint now) {
  const auto found = peers_.find(peer);
  if (found == peers_.end() || found->second.bytes == total) return;
  found->second = {.heard = now, .bytes = total};
}

Clock::Duration FailureDetector::tick(TimePoint now) {
  const Clock::Duration gap = ticked_ ? now - *ticked_ : Clock::Duration();
  ticked_ = now;
  if (!timing_.forgives_suspension || gap <= timing_.silence_limit / 2) return {};
  for (auto& [peer, state] : peers_) state.heard += gap;
  return gap;
}

Clock::Duration FailureDetector::silence(Peer peer, TimePoint now) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? Clock::Duration() : now - found->second.heard;
}

bool FailureDetector::is_lost(Peer peer, TimePoint now) const {
  return peers_.contains(peer) && silence(peer, now) >= timing_.silence_limit;
}

std::vector<FailureDetector::Peer> FailureDetector::lost(TimePoint now) const {
  std::vector<Peer> lost;
  for (const auto& [peer, state] : peers_) {
    if (now - state.heard >= timing_.silence_limit) lost.push_back(peer);
  }
  return lost;
}

FailureDetector::TimePoint FailureDetector::next_loss() const {
  TimePoint next = TimePoint::max();
  for (const auto& [peer, state] : peers_) {
    next = std::min(next, state.heard + timing_.silence_limit);
  }
  return next;
}

}  // namespace strata::cluster
