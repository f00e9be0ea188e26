// What parameter servers answer.
#include "fuzz/fuzz_target.h"
#include "ps/tables/request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::ps;
  Reply reply;
  if (!strata::fuzz::takes([&] { reply = decode_reply(strata::fuzz::text_of(data, size)); })) {
    return 0;
  }
  strata::fuzz::expect(decode_reply(encode(reply)) == reply, "decode(encode(reply)) == reply");
  return 0;
}
