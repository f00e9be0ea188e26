#include "ps/coordinator/call_message.h"

namespace strata::ps {
namespace {

constexpr strata::detail::WireText kCallText = {"[ps] call message", "a call message"};

}  // namespace

std::string encode(const CallMessage& message) {
  std::string out;
  size_t size = 64 + message.text.size();
  for (const Call& call : message.calls) size += 32 + call.values.size();
  for (const Outcome& outcome : message.outcomes) {
    size += 48 + outcome.values.size() + outcome.text.size();
  }
  out.reserve(size);
  strata::detail::write_message(message, out);
  return out;
}

CallMessage decode_call_message(std::string_view bytes) {
  CallMessage message;
  message.kind = CallKind{};
  strata::detail::WireReader reader(bytes, bytes, kCallText);
  strata::detail::read_message(message, reader);
  if (message.kind == CallKind{}) reader.fail("no kind");
  return message;
}

}  // namespace strata::ps
