#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cluster/control_message.h"
#include "strata/core/clock.h"

namespace strata::cluster {

using TimePoint = Clock::TimePoint;

/// A message on its way to whoever is at the other end of a session (0: this very process).
struct Envelope {
  uint64_t session;
  ControlMessage message;
};
using Outbox = std::vector<Envelope>;

/// A request that is not answered yet.
struct Waiter {
  uint64_t session = 0;
  uint64_t request = 0;
  TimePoint deadline;
  uint64_t timeout_ms = 0;  ///< what the deadline was made of, for messages

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

/// Milliseconds as seconds, "1.5 s".
std::string seconds_text(double milliseconds);

}  // namespace strata::cluster
