// The first bytes of a connection, from a stranger. Each input is read twice: as it is, and with
// the checksum that would make it a greeting, so that what is behind it is reached, too.
#include "wire/handshake/greeting.h"

#include <algorithm>
#include <cstring>

#include "fuzz/fuzz_target.h"
#include "strata/core/crc32c.h"

namespace {

using namespace strata::wire;

void hear(std::string_view bytes) {
  (void)strata::fuzz::takes([&] {
    for (size_t came = 0; came <= std::min(bytes.size(), kEnvelopeSize); ++came) {
      strata::fuzz::expect(greeting_size(bytes.substr(0, came)) <= kMaxGreeting,
                           "no greeting is longer than kMaxGreeting");
    }
    const size_t body = greeting_size(bytes.substr(0, kEnvelopeSize));
    if (body == 0 || bytes.size() < kEnvelopeSize + body) return;
    const auto heard =
        decode_greeting(bytes.substr(0, kEnvelopeSize), bytes.substr(kEnvelopeSize, body));
    if (const Proof* proof = std::get_if<Proof>(&heard)) {
      strata::fuzz::expect(proof->bytes.size() == kProofSize, "a proof has its size");
    }
    const Greeting* greeting = std::get_if<Greeting>(&heard);
    if (greeting == nullptr) return;
    const std::string again = encode_greeting(*greeting);
    const auto back = std::get<Greeting>(
        decode_greeting(again.substr(0, kEnvelopeSize), again.substr(kEnvelopeSize)));
    strata::fuzz::expect(back.hello == greeting->hello && back.way == greeting->way &&
                             back.eager_limit == greeting->eager_limit &&
                             back.eager_budget == greeting->eager_budget &&
                             back.proves == greeting->proves && back.nonce == greeting->nonce,
                         "decode(encode(greeting)) == greeting");
  });
}

/// An envelope around `body` as a greeting has it.
std::string sealed(std::string_view body) {
  body = body.substr(0, kMaxGreeting);
  std::string bytes = encode_greeting({}).substr(0, kEnvelopeSize);
  const auto length = static_cast<uint32_t>(body.size());
  const uint32_t crc = strata::crc32c(body.data(), body.size());
  std::memcpy(bytes.data() + 8, &length, sizeof length);
  std::memcpy(bytes.data() + 12, &crc, sizeof crc);
  return bytes.append(body);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  hear(strata::fuzz::text_of(data, size));
  hear(sealed(strata::fuzz::text_of(data, size)));
  return 0;
}
