#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "strata/core/error.h"
#include "strata/wire/hello.h"

namespace strata::wire {

/// The first bytes of a connection, in both directions: an envelope that later versions keep, and
/// in it a greeting, a proof of the job's secret (proof.h) or a refusal.
constexpr uint16_t kProtocolVersion = 2;  // 2: a nonce in the greeting, and proofs
constexpr size_t kEnvelopeSize = 16;
constexpr size_t kMaxGreeting = 2048;
constexpr size_t kNonceSize = 32;
constexpr size_t kProofSize = 32;

struct Greeting {
  Hello hello;
  std::string way = {};  ///< Stream::way
  uint64_t eager_limit = 0;
  uint64_t eager_budget = 0;
  bool proves = false;                      ///< has the job's secret, and expects the peer to
  std::array<char, kNonceSize> nonce = {};  ///< random bytes, of this connection alone
};

struct Proof {
  std::string bytes;  ///< kProofSize
};

/// With the envelope. @throws Error kInvalidArgument: a text is longer than 255 bytes.
std::string encode_greeting(const Greeting& greeting);
std::string encode_refusal(const Status& why);
std::string encode_proof(const Proof& proof);

/// How many bytes follow an envelope.
/// @param envelope  What has come of it, perhaps not all: garbage is seen as early as it can be.
/// @throws Error kDataLoss: it is none. kUnimplemented: of another version; says which.
size_t greeting_size(std::string_view envelope);

/// What is in the envelope. @throws Error kDataLoss: it is damaged.
std::variant<Greeting, Proof, Status> decode_greeting(std::string_view envelope,
                                                      std::string_view body);

}  // namespace strata::wire
