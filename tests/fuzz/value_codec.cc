// Arguments and results of functions on workers.
#include "ps/coordinator/value_codec.h"

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::ps;
  std::vector<Value> values;
  std::vector<at::Tensor> follow;
  constexpr size_t kLimit = 1 << 20;
  if (!strata::fuzz::takes(
          [&] { values = decode_values(strata::fuzz::text_of(data, size), follow, kLimit); })) {
    return 0;
  }
  size_t following = 0;
  for (const at::Tensor& tensor : follow) following += tensor.nbytes();
  strata::fuzz::expect(following <= kLimit, "no more tensors follow than the limit says");
  // Large tensors wait for bytes of their own.
  if (!follow.empty()) return 0;
  EncodedValues encoded;
  if (!strata::fuzz::takes([&] { encoded = encode_values(values); })) return 0;
  std::vector<at::Tensor> again;
  const std::vector<Value> back = decode_values(encoded.text, again);
  strata::fuzz::expect(encode_values(back).text == encoded.text, "encode(decode(text)) == text");
  return 0;
}
