// What tasks and their leader say to each other: any bytes, and messages of each kind there and
// back.
#include "cluster/control_message.h"

#include "fuzz/control_messages.h"
#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::cluster;
  ControlMessage message;
  if (strata::fuzz::takes([&] { message = decode(strata::fuzz::text_of(data, size)); })) {
    strata::fuzz::expect(decode(encode(message)) == message, "decode(encode(message)) == message");
  }
  strata::fuzz::Input input(data, size);
  const ControlMessage made = strata::fuzz::message_from(input);
  strata::fuzz::expect(decode(encode(made)) == made, "decode(encode(made)) == made");
  return 0;
}
