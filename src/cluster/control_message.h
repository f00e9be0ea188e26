#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/core/error.h"

namespace strata::cluster {

/// Messages between tasks and their leader. The numbers are part of the protocol: never reuse one.
enum class MessageKind : uint32_t {
  // To the leader. All but the last four are answered with one kReply.
  kJoin = 1,           ///< value: the spec as JSON; address; number: the last generation seen
  kSet = 2,            ///< name, value; flag: may replace
  kGet = 3,            ///< name
  kCompareAndSet = 4,  ///< name, expected (none: no such key), value
  kErase = 5,          ///< name
  kBarrier = 6,        ///< name; number: the sender's n-th call; tasks: participants
  kLeave = 7,          ///< orderly shutdown
  kHeartbeat = 16,
  kSuspect = 17,  ///< name: a task; value: how the sender's connection to it failed
  kAbort = 18,    ///< value: why the sender aborts; code: of the error, unless it chose to
  kCancel = 19,   ///< request: its sender no longer waits for the reply
  // From the leader.
  kReply = 32,  ///< code, value: the outcome; a kJoin's: generation, tasks
  kHeartbeatAck = 33,
  kFailed = 34,       ///< name: the lost task; code, value: the error of all tasks
  kJoinPending = 35,  ///< name: a task that waits for the next generation
  kClosing = 36,      ///< all other tasks have left: the leader exits
};

/// One message; a kind uses only the fields that it needs. It is encoded in Protocol Buffers' wire
/// format (core/proto_wire.h). Fields are added, never changed; readers skip unknown fields.
struct ControlMessage {
  MessageKind kind = MessageKind::kHeartbeat;
  uint64_t request = 0;     ///< the sender's number; a reply has its request's
  uint64_t generation = 0;  ///< of the sender
  uint64_t number = 0;
  ErrorCode code = ErrorCode::kOk;
  std::string name;
  std::string value;
  std::optional<std::string> expected;
  std::string address;
  bool flag = false;
  uint64_t timeout_ms = 0;  ///< of the sender's wait
  std::string operation;    ///< what the sender's program is doing (Server::set_operation)
  std::vector<std::pair<std::string, std::string>> tasks;  ///< names and addresses

  friend bool operator==(const ControlMessage&, const ControlMessage&) = default;
};

std::string encode(const ControlMessage& message);

/// @throws Error  kDataLoss: malformed; names the position.
ControlMessage decode(std::string_view bytes);

}  // namespace strata::cluster
