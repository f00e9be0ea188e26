// What a coordinator and a worker say to each other, and the values in it.
#include "ps/coordinator/call_message.h"

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::ps;
  CallMessage message;
  if (!strata::fuzz::takes(
          [&] { message = decode_call_message(strata::fuzz::text_of(data, size)); })) {
    return 0;
  }
  const std::string bytes = encode(message);
  strata::fuzz::expect(decode_call_message(bytes) == message, "decode(encode(message)) == message");
  return 0;
}
