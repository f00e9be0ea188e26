// What workers ask parameter servers: any bytes, and requests there and back.
#include "fuzz/fuzz_target.h"
#include "ps/tables/request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::ps;
  Request request;
  if (!strata::fuzz::takes([&] { request = decode_request(strata::fuzz::text_of(data, size)); })) {
    return 0;
  }
  // Bytes and not fields: a NaN is not equal to itself.
  const std::string bytes = encode(request);
  strata::fuzz::expect(encode(decode_request(bytes)) == bytes, "encode(decode(bytes)) == bytes");
  return 0;
}
