#include "ps/coordinator/call_message.h"

#include "core/proto_wire.h"

namespace strata::ps {
namespace {

using strata::detail::put_number;
using strata::detail::put_text;
using strata::detail::WireReader;
using strata::detail::WireType;

enum Field : uint32_t {
  kKind = 1,
  kNumber = 2,
  kCode = 3,
  kTheText = 4,
  kLine = 5,
  kCall = 6,
  kOutcome = 7,
  kNumbers = 8,
};
enum CallField : uint32_t { kCallNumber = 1, kFunction = 2, kDiscard = 3, kArguments = 4 };
enum OutcomeField : uint32_t {
  kOutcomeNumber = 1,
  kOutcomeCode = 2,
  kOutcomeText = 3,
  kResult = 4,
  kRun = 5,
  kHere = 6,
};

constexpr strata::detail::WireText kCallText = {"[ps] call message", "a call message"};

ErrorCode take_code(WireReader& reader, WireType type) {
  const auto code = static_cast<ErrorCode>(reader.number(type) & 0xFFFF);
  return error_code_name(code) == "UNKNOWN" ? ErrorCode::kUnknown : code;
}

Call decode_call(std::string_view bytes, std::string_view whole) {
  Call call;
  WireReader reader(bytes, whole, kCallText);
  while (!reader.at_end()) {
    WireType type;
    switch (reader.field(type)) {
      case kCallNumber:
        call.number = reader.number(type);
        break;
      case kFunction:
        call.function = static_cast<uint32_t>(reader.number(type));
        break;
      case kDiscard:
        call.discard = reader.number(type) != 0;
        break;
      case kArguments:
        call.values = reader.text(type);
        break;
      default:
        reader.skip(type);
    }
  }
  return call;
}

Outcome decode_outcome(std::string_view bytes, std::string_view whole) {
  Outcome outcome;
  WireReader reader(bytes, whole, kCallText);
  while (!reader.at_end()) {
    WireType type;
    switch (reader.field(type)) {
      case kOutcomeNumber:
        outcome.number = reader.number(type);
        break;
      case kOutcomeCode:
        outcome.code = take_code(reader, type);
        break;
      case kOutcomeText:
        outcome.text = reader.text(type);
        break;
      case kResult:
        outcome.values = reader.text(type);
        break;
      case kRun:
        outcome.run_ns = reader.number(type);
        break;
      case kHere:
        outcome.service_time_ns = reader.number(type);
        break;
      default:
        reader.skip(type);
    }
  }
  return outcome;
}

}  // namespace

std::string encode(const CallMessage& message) {
  std::string out;
  size_t size = 64 + message.text.size();
  for (const Call& call : message.calls) size += 32 + call.values.size();
  for (const Outcome& outcome : message.outcomes) {
    size += 48 + outcome.values.size() + outcome.text.size();
  }
  out.reserve(size);
  put_number(kKind, static_cast<uint64_t>(message.kind), out);
  put_number(kNumber, message.number, out);
  put_number(kCode, static_cast<uint64_t>(message.code), out);
  put_text(kTheText, message.text, out);
  for (const std::string& line : message.lines) strata::detail::put_bytes(kLine, line, out);
  std::string part;
  for (const Call& call : message.calls) {
    part.clear();
    put_number(kCallNumber, call.number, part);
    put_number(kFunction, call.function, part);
    put_number(kDiscard, call.discard ? 1 : 0, part);
    put_text(kArguments, call.values, part);
    strata::detail::put_bytes(kCall, part, out);
  }
  for (const Outcome& outcome : message.outcomes) {
    part.clear();
    put_number(kOutcomeNumber, outcome.number, part);
    put_number(kOutcomeCode, static_cast<uint64_t>(outcome.code), part);
    put_text(kOutcomeText, outcome.text, part);
    put_text(kResult, outcome.values, part);
    put_number(kRun, outcome.run_ns, part);
    put_number(kHere, outcome.service_time_ns, part);
    strata::detail::put_bytes(kOutcome, part, out);
  }
  for (const uint64_t number : message.numbers) {
    strata::detail::put_integer(kNumbers, static_cast<int64_t>(number), out);
  }
  return out;
}

CallMessage decode_call_message(std::string_view bytes) {
  CallMessage message;
  message.kind = CallKind{};
  WireReader reader(bytes, bytes, kCallText);
  while (!reader.at_end()) {
    WireType type;
    switch (reader.field(type)) {
      case kKind:
        message.kind = static_cast<CallKind>(reader.number(type));
        break;
      case kNumber:
        message.number = reader.number(type);
        break;
      case kCode:
        message.code = take_code(reader, type);
        break;
      case kTheText:
        message.text = reader.text(type);
        break;
      case kLine:
        message.lines.emplace_back(reader.text(type));
        break;
      case kCall:
        message.calls.push_back(decode_call(reader.text(type), bytes));
        break;
      case kOutcome:
        message.outcomes.push_back(decode_outcome(reader.text(type), bytes));
        break;
      case kNumbers:
        message.numbers.push_back(reader.number(type));
        break;
      default:
        reader.skip(type);
    }
  }
  if (message.kind == CallKind{}) reader.fail("no kind");
  return message;
}

}  // namespace strata::ps
