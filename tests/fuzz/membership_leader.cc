// The leader's decisions, whatever its members say: sessions come and go, messages of every kind
// arrive in any order, time passes.
#include "cluster/membership_leader.h"

#include <map>

#include "fuzz/control_messages.h"
#include "fuzz/fuzz_target.h"
#include "strata/cluster/roles.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::cluster;
  strata::fuzz::Input input(data, size);
  const ClusterSpec spec = {{"worker", {"a:1", "b:1", "c:1"}}};
  MembershipLeader coordinator(
      {.spec = spec, .members = members(spec), .liveness = std::chrono::seconds(10)});
  TimePoint now;
  std::map<uint64_t, int> sessions;  // and whose
  uint64_t next_session = 0;
  const auto open = [&](int task) {
    sessions[next_session] = task;
    coordinator.opened(next_session++, {"worker", task}, now);
  };
  const auto look = [&] {
    for (const Envelope& each : coordinator.take_outbox()) {
      strata::fuzz::expect(sessions.contains(each.session), "nothing is told to who is gone");
      strata::fuzz::expect(decode(encode(each.message)) == each.message, "what is told travels");
    }
    for (const auto& [session, why] : coordinator.take_dropped()) {
      if (session == 0 || sessions.erase(session) == 0) continue;
      coordinator.closed(session, why.message(), now);
    }
  };
  for (int task = 0; task < 3; ++task) open(task);
  for (int events = 0; !input.empty() && events < 256; ++events) {
    auto chosen = sessions.begin();
    std::advance(chosen, static_cast<long>(input.below(sessions.size())));
    switch (input.below(12)) {
      case 0: {
        if (chosen->first == 0) break;  // the leader's own
        const auto [session, task] = *chosen;
        sessions.erase(chosen);
        coordinator.closed(session, "closed its connection", now);
        if (input.flag()) open(task);
        break;
      }
      case 1:
        now += std::chrono::milliseconds(100 * input.byte());
        coordinator.tick(now);
        break;
      case 2:
        if (sessions.size() < 8) open(static_cast<int>(input.below(4)));
        break;
      default:
        coordinator.received(chosen->first, strata::fuzz::message_from(input), now);
    }
    look();
    (void)coordinator.next_event();
  }
  return 0;
}
