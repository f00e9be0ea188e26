#include "wire/handshake/proof.h"

#include <cstdint>

#include "core/hmac_sha256.h"

namespace strata::wire {
namespace {

/// With its size in front: where one part ends cannot be moved into the next.
void put_sized(std::string& out, std::string_view part) {
  const auto size = static_cast<uint64_t>(part.size());
  for (int shift = 0; shift < 64; shift += 8) out += static_cast<char>(size >> shift & 0xFF);
  out += part;
}

}  // namespace

std::string proof_of(End end, const JobSecret& secret, std::string_view dialers_hello,
                     std::string_view listeners_hello) {
  std::string message;
  put_sized(message, "strata job secret");
  put_sized(message, end == End::kDialer ? "dialer" : "listener");
  put_sized(message, dialers_hello);
  put_sized(message, listeners_hello);
  return strata::detail::hmac_sha256(secret.reveal(), message);
}

}  // namespace strata::wire
