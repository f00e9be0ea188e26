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

void put_number(uint32_t field, uint64_t value, std::string& out) {
  if (value != 0) detail::put_integer(field, static_cast<int64_t>(value), out);
}
void put_text(uint32_t field, std::string_view text, std::string& out) {
  if (!text.empty()) detail::put_bytes(field, text, out);
}

// A field of this message is of another kind than it should be, or unknown: a later version's.
template <typename Take>
void take_if(detail::WireReader& reader, WireType type, WireType wanted, Take take) {
  if (type != wanted) reader.fail("a field of another kind");
  take();
}

std::pair<std::string, std::string> decode_task(std::string_view bytes, std::string_view whole) {
  std::pair<std::string, std::string> task;
  detail::WireReader reader(bytes, whole, kText);
  while (!reader.at_end()) {
    WireType type;
    const uint32_t field = reader.field(type);
    if (field == kTaskName) {
      take_if(reader, type, WireType::kBytes, [&] { task.first = reader.bytes(); });
    } else if (field == kTaskAddress) {
      take_if(reader, type, WireType::kBytes, [&] { task.second = reader.bytes(); });
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
      take_if(reader, type, WireType::kVarint,
              [&] { to = static_cast<std::remove_reference_t<decltype(to)>>(reader.varint()); });
    };
    const auto text = [&](auto& to) {
      take_if(reader, type, WireType::kBytes, [&] { to = std::string(reader.bytes()); });
    };
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
        take_if(reader, type, WireType::kBytes,
                [&] { message.tasks.push_back(decode_task(reader.bytes(), bytes)); });
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
