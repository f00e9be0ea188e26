#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "core/clock.h"

namespace strata::cluster {

constexpr std::chrono::milliseconds kShortestLiveness{100};
constexpr std::chrono::seconds kLongestHeartbeatInterval{1};

/// Checks ServerOptions::liveness. @param where  For the error: "[cluster] Server".
/// @throws Error  kInvalidArgument: shorter than kShortestLiveness.
void check_liveness(Clock::Duration liveness, std::string_view where);

struct HeartbeatTiming {
  Clock::Duration silence_limit;       ///< a peer that is silent for this long is lost
  Clock::Duration heartbeat_interval;  ///< how often this process sends a heartbeat
  /// A process that was suspended (SIGSTOP, a sleeping machine) has not read what its peers sent
  /// meanwhile: the time between two calls of tick(), if it exceeds half of `silence_limit`, is not
  /// their silence.
  bool forgives_suspension;
};

/// Control connections: a silent peer is found within `liveness`, and not just after it.
HeartbeatTiming control_timing(Clock::Duration liveness);
/// Connections of parameter servers. Their tick() is the serving thread's, and forgives nothing.
HeartbeatTiming table_timing(Clock::Duration liveness);

/// Decides which peers are lost since they are silent, and when to send a heartbeat. A state
/// machine without thread, transport or clock: the caller passes what it has heard and the time.
/// Peers are known by numbers of the caller's; calls about others do nothing.
class FailureDetector {
 public:
  using Peer = uint64_t;
  using TimePoint = Clock::TimePoint;

  /// @param started  The first heartbeat is due then, and the first tick() counts from then on;
  ///   nullopt: from the first tick() on.
  explicit FailureDetector(const HeartbeatTiming& timing,
                           std::optional<TimePoint> started = std::nullopt);

  const HeartbeatTiming& timing() const { return timing_; }

  /// Watches a peer, as one that has been heard just now; again, if it was watched before.
  void add(Peer peer, TimePoint now);
  void remove(Peer peer) { peers_.erase(peer); }
  /// The peer has sent something.
  void heard(Peer peer, TimePoint now);
  /// The same, if the peer's connection has received more bytes than at the last call: a part of a
  /// large transfer is a sign of life, too. @param total  Since the connection was opened.
  void received(Peer peer, uint64_t total, TimePoint now);

  /// Call it several times per silence limit. @return the time that was forgiven, mostly 0.
  Clock::Duration tick(TimePoint now);

  Clock::Duration silence(Peer peer, TimePoint now) const;
  bool is_lost(Peer peer, TimePoint now) const;
  /// In ascending order. They are watched until `remove`.
  std::vector<Peer> lost(TimePoint now) const;
  /// When the next peer is lost, unless it is heard.
  TimePoint next_loss() const;

  bool heartbeat_due(TimePoint now) const { return now >= next_heartbeat_; }
  /// The next heartbeat is due after one interval.
  void heartbeat_sent(TimePoint now) { next_heartbeat_ = now + timing_.heartbeat_interval; }
  TimePoint next_heartbeat() const { return next_heartbeat_; }

 private:
  struct State {
    TimePoint heard;
    uint64_t bytes = 0;
  };

  HeartbeatTiming timing_;
  std::map<Peer, State> peers_;
  std::optional<TimePoint> ticked_;
  TimePoint next_heartbeat_;
};

}  // namespace strata::cluster
