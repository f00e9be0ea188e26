#include "ps/tables/request.h"

namespace strata::ps {
namespace {

constexpr strata::detail::WireText kRequestText = {"[ps] request", "a request"};
constexpr strata::detail::WireText kReplyText = {"[ps] reply", "a reply"};

template <typename Message>
std::string encoded(const Message& message) {
  std::string out;
  strata::detail::write_message(message, out);
  return out;
}

template <typename Message>
Message decoded(std::string_view bytes, const strata::detail::WireText& text) {
  Message message;
  strata::detail::WireReader reader(bytes, bytes, text);
  strata::detail::read_message(message, reader);
  return message;
}

}  // namespace

std::string encode(const Request& request) { return encoded(request); }
std::string encode(const Reply& reply) { return encoded(reply); }

Request decode_request(std::string_view bytes) {
  const auto request = decoded<Request>(bytes, kRequestText);
  // A zero is not written, so that it would be read as kCreate the next time.
  STRATA_CHECK(request.kind != RequestKind{}, kDataLoss,
               "[ps] request: got kind 0; expected a kind of RequestKind, which begin at 1; its "
               "bytes are damaged, or the sender is no worker of this version");
  return request;
}

Reply decode_reply(std::string_view bytes) { return decoded<Reply>(bytes, kReplyText); }

}  // namespace strata::ps
