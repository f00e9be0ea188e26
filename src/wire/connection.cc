#include "wire/connection.h"

#include <utility>

namespace strata::wire {

Connection::Connection(Hello peer, Address address)
    : peer_(std::move(peer)),
      address_(std::move(address)),
      name_(str_cat(peer_.task, " at ", address_.to_string())) {}

void Connection::send_message(uint32_t channel, std::string_view text) {
  STRATA_CHECK(text.size() <= kMaxMessage, kInvalidArgument, "[wire] send_message: got ",
               text.size(), " bytes for ", name_, "; expected at most ", kMaxMessage,
               " (tensors go with send)");
  do_send_message(channel, text);
}

}  // namespace strata::wire
