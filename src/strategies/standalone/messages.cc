#include "strategies/standalone/messages.h"

namespace strata::standalone {
namespace {

constexpr strata::detail::WireText kRequestText{.call = "[standalone] request",
                                                .expected = "a request"};
constexpr strata::detail::WireText kReplyText{.call = "[standalone] reply", .expected = "a reply"};

}  // namespace

std::string encode(const Request& request) {
  std::string out;
  strata::detail::write_message(request, out);
  return out;
}

std::string encode(const Reply& reply) {
  std::string out;
  strata::detail::write_message(reply, out);
  return out;
}

Request decode_request(std::string_view bytes) {
  Request request;
  strata::detail::WireReader reader(bytes, bytes, kRequestText);
  strata::detail::read_message(request, reader);
  return request;
}

Reply decode_reply(std::string_view bytes) {
  Reply reply;
  strata::detail::WireReader reader(bytes, bytes, kReplyText);
  strata::detail::read_message(reply, reader);
  return reply;
}

}  // namespace strata::standalone
