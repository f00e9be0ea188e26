#include "cluster/control_message.h"

namespace strata::cluster {
namespace {

constexpr detail::WireText kText = {"[cluster] control message", "a control message"};

}  // namespace

std::string encode(const ControlMessage& message) {
  std::string out;
  detail::write_message(message, out);
  return out;
}

ControlMessage decode(std::string_view bytes) {
  ControlMessage message;
  message.kind = MessageKind{};
  detail::WireReader reader(bytes, bytes, kText);
  detail::read_message(message, reader);
  if (message.kind == MessageKind{}) reader.fail("no kind");
  return message;
}

}  // namespace strata::cluster
