#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/core/error.h"

namespace strata::cluster {

/// What tasks and their leader say to each other. Numbers are the wire's: never reuse one.
enum class MessageKind : uint32_t {
  // To the leader. All but the last four are answered by one kReply.
  kJoin = 1,           ///< value: the spec as JSON; address; number: the last generation seen
  kSet = 2,            ///< name, value; flag: may replace
  kGet = 3,            ///< name
  kCompareAndSet = 4,  ///< name, expected (none: no such key), value
  kErase = 5,          ///< name
  kBarrier = 6,        ///< name; number: how often this task was there; tasks: who takes part
  kLeave = 7,          ///< the orderly end
  kHeartbeat = 16,
  kSuspect = 17,   ///< name: a task; value: what the sender's connection to it met
  kAbort = 18,     ///< value: the sender gives up; code: of what it met, if it did not choose to
  kWithdraw = 19,  ///< request: no longer waited for
  // From the leader.
  kReply = 32,     ///< code, value: the outcome; a kJoin's: generation, tasks
  kBeat = 33,      ///< answers kHeartbeat
  kFailed = 34,    ///< name: who; code, value: the error that everyone gets
  kNewcomer = 35,  ///< name: a task that waits for the next generation
  kClosing = 36,   ///< the leader has waited for everyone who was still there, and goes
};

/// One message, as few fields as its kind needs. On the wire: Protocol Buffers' format, written by
/// hand (core/proto_wire.h): a few dozen lines, checked against bounds, instead of a library that
/// everyone with two processes would have to install. Fields are added, never changed; readers pass
/// over those that they do not know.
struct ControlMessage {
  MessageKind kind = MessageKind::kHeartbeat;
  uint64_t request = 0;     ///< the sender's number; a reply has its request's
  uint64_t generation = 0;  ///< in which the sender was
  uint64_t number = 0;
  ErrorCode code = ErrorCode::kOk;
  std::string name;
  std::string value;
  std::optional<std::string> expected;
  std::string address;
  bool flag = false;
  uint64_t timeout_ms = 0;  ///< how long the sender waits
  std::string operation;    ///< what the sender is doing, in the words of its program
  std::vector<std::pair<std::string, std::string>> tasks;  ///< names and addresses

  friend bool operator==(const ControlMessage&, const ControlMessage&) = default;
};

std::string encode(const ControlMessage& message);

/// @throws Error  kDataLoss: not such a message; says where.
ControlMessage decode(std::string_view bytes);

}  // namespace strata::cluster
