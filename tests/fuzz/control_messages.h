#pragma once

#include <string>

#include "cluster/control_message.h"
#include "fuzz/fuzz_target.h"

namespace strata::fuzz {

/// A message of any kind with any fields; texts are short ones that meet, or any.
inline cluster::ControlMessage message_from(Input& input) {
  using cluster::MessageKind;
  static constexpr MessageKind kKinds[] = {
      MessageKind::kJoin,          MessageKind::kSet,       MessageKind::kGet,
      MessageKind::kCompareAndSet, MessageKind::kErase,     MessageKind::kBarrier,
      MessageKind::kLeave,         MessageKind::kHeartbeat, MessageKind::kSuspect,
      MessageKind::kAbort,         MessageKind::kCancel,    MessageKind::kReply,
      MessageKind::kHeartbeatAck,  MessageKind::kFailed,    MessageKind::kJoinPending,
      MessageKind::kClosing};
  static constexpr const char* kTexts[] = {"",
                                           "a",
                                           "b",
                                           "/job:worker/task:0",
                                           "/job:worker/task:1",
                                           "/job:worker/task:2",
                                           "{\"worker\":[\"a:1\",\"b:1\",\"c:1\"]}",
                                           "{\"worker\":[\"a:1\",\"b:1\"]}"};
  const auto text = [&] {
    const size_t chosen = input.below(std::size(kTexts) + 1);
    return chosen < std::size(kTexts) ? std::string(kTexts[chosen]) : std::string(input.text());
  };
  cluster::ControlMessage message;
  message.kind = kKinds[input.below(std::size(kKinds))];
  const uint8_t fields = input.byte();
  message.request = input.byte();
  message.generation = (fields & 1) != 0 ? input.number() : 1;
  if ((fields & 2) != 0) message.number = input.number();
  if ((fields & 4) != 0) message.code = static_cast<ErrorCode>(input.below(17));
  message.name = text();
  message.value = text();
  if ((fields & 8) != 0) message.expected = text();
  if ((fields & 16) != 0) message.address = text();
  message.flag = (fields & 32) != 0;
  message.timeout_ms = (fields & 64) != 0 ? input.number() : 1000;
  if ((fields & 128) != 0) {
    message.operation = text();
    for (size_t tasks = input.below(4); tasks > 0; --tasks) {
      const std::string name = text();
      message.tasks.push_back({name, text()});
    }
  }
  return message;
}

}  // namespace strata::fuzz
