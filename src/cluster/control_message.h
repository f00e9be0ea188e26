#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/proto_message.h"
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

/// A task, and the address at which it listens.
struct TaskAddress {
  std::string name;
  std::string address;

  friend bool operator==(const TaskAddress&, const TaskAddress&) = default;
};

/// One message; a kind uses only the fields that it needs. Its contract is
/// proto/strata/control_message.proto. Fields are added, never changed; readers skip unknown
/// fields.
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
  std::vector<TaskAddress> tasks;

  friend bool operator==(const ControlMessage&, const ControlMessage&) = default;
};

void visit_fields(auto& field, detail::MessageOf<TaskAddress> auto& task) {
  field(1, "name", task.name);
  field(2, "address", task.address);
}

void visit_fields(auto& field, detail::MessageOf<ControlMessage> auto& message) {
  field(1, "kind", message.kind);
  field(2, "request", message.request);
  field(3, "generation", message.generation);
  field(4, "number", message.number);
  field(5, "code", message.code);
  field(6, "name", message.name);
  field.bytes(7, "value", message.value);
  field.bytes(8, "expected", message.expected);
  field(9, "address", message.address);
  field(10, "flag", message.flag);
  field(11, "timeout_ms", message.timeout_ms);
  field(13, "operation", message.operation);
  field(12, "tasks", message.tasks);
}

std::string encode(const ControlMessage& message);

/// @throws Error  kDataLoss: malformed; names the position.
ControlMessage decode(std::string_view bytes);

}  // namespace strata::cluster
