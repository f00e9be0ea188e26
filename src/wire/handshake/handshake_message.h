#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "strata/core/error.h"
#include "wire/hello.h"

namespace strata::wire {

/// The first bytes of a connection, in both directions: an envelope that later versions keep, and
/// in it a hello, a proof of the job's secret (proof.h) or a refusal.
constexpr uint16_t kProtocolVersion = 2;  // 2: a nonce in the hello, and proofs
constexpr size_t kEnvelopeSize = 16;
constexpr size_t kMaxHandshakeMessage = 2048;
constexpr size_t kNonceSize = 32;
constexpr size_t kProofSize = 32;

struct HelloMessage {
  Hello hello;
  std::string upgrade_protocol = {};  ///< Stream::way
  uint64_t eager_limit = 0;
  uint64_t eager_budget = 0;
  bool proves = false;                      ///< has the job's secret, and expects the peer to
  std::array<char, kNonceSize> nonce = {};  ///< random bytes, of this connection alone
};

struct Proof {
  std::string bytes;  ///< kProofSize
};

/// With the envelope. @throws Error kInvalidArgument: a text is longer than 255 bytes.
std::string encode_hello(const HelloMessage& hello);
std::string encode_reject(const Status& why);
std::string encode_proof(const Proof& proof);

/// How many bytes follow an envelope.
/// @param envelope  What has come of it, perhaps not all: garbage is seen as early as it can be.
/// @throws Error kDataLoss: it is none. kUnimplemented: of another version; says which.
size_t handshake_message_size(std::string_view envelope);

/// What is in the envelope. @throws Error kDataLoss: it is damaged.
std::variant<HelloMessage, Proof, Status> decode_handshake_message(std::string_view envelope,
                                                                   std::string_view body);

}  // namespace strata::wire
