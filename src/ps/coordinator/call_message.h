#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/proto_message.h"
#include "strata/core/error.h"

namespace strata::ps {

/// What a coordinator and a worker say to each other. Numbers are the wire's: never reuse one.
enum class CallKind : uint32_t {
  // To the worker.
  kOpen = 1,      ///< number: the registry's fingerprint; lines: its
                  ///< signatures; text: the kernels that run
  kRun = 2,       ///< calls: one after the other, or several at a time
  kCreate = 3,    ///< calls: one; number: a ResourceId. Before what follows
  kRelease = 4,   ///< numbers: of per-worker values that are no longer needed
  kTakeBack = 5,  ///< numbers: calls that are not to be begun; answered by kRequeued
  kCancel = 6,    ///< all calls so far: those not begun are answered by kRequeued
  kPing = 7,      ///< answered by kPong
  kEnd = 8,       ///< the coordinator needs no worker any more
  // From the worker.
  kReady = 32,     ///< answers kOpen: calls may come
  kRefuse = 33,    ///< answers kOpen: code, text: why not
  kOutcomes = 34,  ///< outcomes: of calls, in the order of their ends
  kCreated = 35,   ///< outcomes: one, of a kCreate, without a value
  kRequeued = 36,  ///< numbers: those calls that had not begun
  kPong = 37,
};

/// A call of a function. `values`: as encode_values makes them.
struct Call {
  uint64_t number = 0;
  uint32_t function = 0;  ///< its index in the registry
  bool discard = false;   ///< the coordinator does not want the result
  std::string_view values = {};

  friend bool operator==(const Call&, const Call&) = default;
};

/// How a call ended. `values`: a list of one.
struct Outcome {
  uint64_t number = 0;
  ErrorCode code = ErrorCode::kOk;
  std::string_view text = {};
  std::string_view values = {};
  uint64_t run_ns = 0;           ///< how long the function took
  uint64_t service_time_ns = 0;  ///< from the call's arrival to the outcome's departure

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

/// One message, as few fields as its kind needs. Its contract is proto/strata/call_message.proto.
/// Fields are added, never changed. Views are of what was decoded.
struct CallMessage {
  CallKind kind = CallKind::kPing;
  uint64_t number = 0;
  ErrorCode code = ErrorCode::kOk;
  std::string_view text = {};
  std::vector<std::string> lines = {};
  std::vector<Call> calls = {};
  std::vector<Outcome> outcomes = {};
  std::vector<uint64_t> numbers = {};

  friend bool operator==(const CallMessage&, const CallMessage&) = default;
};

void visit_fields(auto& field, strata::detail::MessageOf<Call> auto& call) {
  field(1, "number", call.number);
  field(2, "function", call.function);
  field(3, "discard", call.discard);
  field.bytes(4, "values", call.values);
}

void visit_fields(auto& field, strata::detail::MessageOf<Outcome> auto& outcome) {
  field(1, "number", outcome.number);
  field(2, "code", outcome.code);
  field(3, "text", outcome.text);
  field.bytes(4, "values", outcome.values);
  field(5, "run_ns", outcome.run_ns);
  field(6, "service_time_ns", outcome.service_time_ns);
}

void visit_fields(auto& field, strata::detail::MessageOf<CallMessage> auto& message) {
  field(1, "kind", message.kind);
  field(2, "number", message.number);
  field(3, "code", message.code);
  field(4, "text", message.text);
  field(5, "lines", message.lines);
  field(6, "calls", message.calls);
  field(7, "outcomes", message.outcomes);
  field(8, "numbers", message.numbers);
}

std::string encode(const CallMessage& message);

/// @throws Error  kDataLoss: not such a message; says where.
CallMessage decode_call_message(std::string_view bytes);

/// Which of a connection's channels are whose: texts, and the tensors that follow them.
constexpr uint32_t kCallChannel = 0;
constexpr uint32_t kTensorChannel = 1;
/// What a coordinator's connection is for.
constexpr std::string_view kCoordinatorPurpose = "coordinator";

}  // namespace strata::ps
