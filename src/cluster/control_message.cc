#include "cluster/control_message.h"

#include "core/proto_wire.h"

namespace strata::cluster {
namespace {

using detail::WireType;

enum Field : uint32_t {
  kKind = 1,
  kRequest = 2,
  kGeneration = 3,
  kNumber = 4,
  kCode = 5,
  kName = 6,
  kValue = 7,
  kExpected = 8,
  kAddress = 9,
  kFlag = 10,
  kTimeout = 11,
  kTask = 12,
  kOperation = 13,
};
enum TaskField : uint32_t { kTaskName = 1, kTaskAddress = 2 };

constexpr detail::WireText kText = {"[cluster] control message", "a control message"};

using detail::put_number;
using detail::put_text;

std::pair<std::string, std::string> decode_task(std::string_view bytes, std::string_view whole) {
  std::pair<std::string, std::string> task;
  detail::WireReader reader(bytes, whole, kText);
  while (!reader.at_end()) {
    WireType type;
    const uint32_t field = reader.field(type);
    if (field == kTaskName) {
      task.first = reader.text(type);
    } else if (field == kTaskAddress) {
      task.second = reader.text(type);
    } else {
      reader.skip(type);
    }
  }
  return task;
}

}  // namespace

std::string encode(const ControlMessage& message) {
  std::string out;
  put_number(kKind, static_cast<uint64_t>(message.kind), out);
  put_number(kRequest, message.request, out);
  put_number(kGeneration, message.generation, out);
  put_number(kNumber, message.number, out);
  put_number(kCode, static_cast<uint64_t>(message.code), out);
  put_text(kName, message.name, out);
  put_text(kValue, message.value, out);
  if (message.expected) detail::put_bytes(kExpected, *message.expected, out);
  put_text(kAddress, message.address, out);
  put_number(kFlag, message.flag ? 1 : 0, out);
  put_number(kTimeout, message.timeout_ms, out);
  put_text(kOperation, message.operation, out);
  for (const auto& [name, address] : message.tasks) {
    std::string task;
    put_text(kTaskName, name, task);
    put_text(kTaskAddress, address, task);
    detail::put_bytes(kTask, task, out);
  }
  return out;
}

ControlMessage decode(std::string_view bytes) {
  ControlMessage message;
  message.kind = MessageKind{};
  detail::WireReader reader(bytes, bytes, kText);
  while (!reader.at_end()) {
    WireType type;
    const uint32_t field = reader.field(type);
    const auto number = [&](auto& to) {
      to = static_cast<std::remove_reference_t<decltype(to)>>(reader.number(type));
    };
    const auto text = [&](auto& to) { to = std::string(reader.text(type)); };
    switch (field) {
      case kKind:
        number(message.kind);
        break;
      case kRequest:
        number(message.request);
        break;
      case kGeneration:
        number(message.generation);
        break;
      case kNumber:
        number(message.number);
        break;
      case kCode:
        number(message.code);
        break;
      case kName:
        text(message.name);
        break;
      case kValue:
        text(message.value);
        break;
      case kExpected:
        text(message.expected);
        break;
      case kAddress:
        text(message.address);
        break;
      case kFlag:
        number(message.flag);
        break;
      case kTimeout:
        number(message.timeout_ms);
        break;
      case kOperation:
        text(message.operation);
        break;
      case kTask:
        message.tasks.push_back(decode_task(reader.text(type), bytes));
        break;
      default:
        reader.skip(type);
    }
  }
  if (message.kind == MessageKind{}) reader.fail("no kind");
  if (error_code_name(message.code) == "UNKNOWN") message.code = ErrorCode::kUnknown;
  return message;
}

}  // namespace strata::cluster
