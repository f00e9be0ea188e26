#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cluster/control_message.h"
#include "core/clock.h"

namespace strata::cluster {

using TimePoint = Clock::TimePoint;

/// A message to the peer of a session; session 0 is this process.
struct Envelope {
  uint64_t session;
  ControlMessage message;
};
using Outbox = std::vector<Envelope>;

/// A request that has not been answered.
struct PendingRequest {
  uint64_t session = 0;
  uint64_t request = 0;
  TimePoint deadline;
  uint64_t timeout_ms = 0;  ///< from which the deadline was computed; for error messages

  void reply(Outbox& out, ControlMessage answer = {}) const {
    answer.kind = MessageKind::kReply;
    answer.request = request;
    out.push_back({session, std::move(answer)});
  }
  void fail(Outbox& out, const Status& status) const {
    ControlMessage answer;
    answer.code = status.code();
    answer.value = status.message();
    reply(out, std::move(answer));
  }
  /// "1.5 s"
  std::string timeout() const;
};

/// "1.5 s"
std::string seconds_text(std::chrono::duration<double> duration);

}  // namespace strata::cluster
