// The first bytes of a connection, from a stranger. Each input is read twice: as it is, and with
// the checksum that would make it a hello, so that what is behind it is reached, too.
#include "wire/handshake/handshake_message.h"

#include <algorithm>
#include <cstring>

#include "core/crc32c.h"
#include "fuzz/fuzz_target.h"

namespace {

using namespace strata::wire;

void read(std::string_view bytes) {
  (void)strata::fuzz::takes([&] {
    for (size_t came = 0; came <= std::min(bytes.size(), kEnvelopeSize); ++came) {
      strata::fuzz::expect(handshake_message_size(bytes.substr(0, came)) <= kMaxHandshakeMessage,
                           "no hello is longer than kMaxHandshakeMessage");
    }
    const size_t body = handshake_message_size(bytes.substr(0, kEnvelopeSize));
    if (body == 0 || bytes.size() < kEnvelopeSize + body) return;
    const auto message =
        decode_handshake_message(bytes.substr(0, kEnvelopeSize), bytes.substr(kEnvelopeSize, body));
    if (const Proof* proof = std::get_if<Proof>(&message)) {
      strata::fuzz::expect(proof->bytes.size() == kProofSize, "a proof has its size");
    }
    const HelloMessage* hello = std::get_if<HelloMessage>(&message);
    if (hello == nullptr) return;
    const std::string again = encode_hello(*hello);
    const auto back = std::get<HelloMessage>(
        decode_handshake_message(again.substr(0, kEnvelopeSize), again.substr(kEnvelopeSize)));
    strata::fuzz::expect(
        back.hello == hello->hello && back.upgrade_protocol == hello->upgrade_protocol &&
            back.eager_limit == hello->eager_limit && back.eager_budget == hello->eager_budget &&
            back.proves == hello->proves && back.nonce == hello->nonce,
        "decode(encode(hello)) == hello");
  });
}

/// An envelope around `body` as a hello has it.
std::string sealed(std::string_view body) {
  body = body.substr(0, kMaxHandshakeMessage);
  std::string bytes = encode_hello({}).substr(0, kEnvelopeSize);
  const auto length = static_cast<uint32_t>(body.size());
  const uint32_t crc = strata::crc32c(body.data(), body.size());
  std::memcpy(bytes.data() + 8, &length, sizeof length);
  std::memcpy(bytes.data() + 12, &crc, sizeof crc);
  return bytes.append(body);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  read(strata::fuzz::text_of(data, size));
  read(sealed(strata::fuzz::text_of(data, size)));
  return 0;
}
