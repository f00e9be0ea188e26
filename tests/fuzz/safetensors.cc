// safetensors files.
#include "strata/checkpoint/safetensors.h"

#include "checkpoint/safetensors_format.h"
#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::checkpoint;
  const std::string path = strata::fuzz::file_of(strata::fuzz::text_of(data, size));
  const bool good = strata::fuzz::takes([&] {
    const Header header =
        parse_header(std::as_bytes(std::span(data, size)), size, "input.safetensors");
    for (const TensorRecord& record : header.records) {
      strata::fuzz::expect(record.begin <= record.end && header.data_begin + record.end <= size,
                           "a tensor lies within its file");
    }
  });
  if (good) (void)strata::fuzz::takes([&] { (void)strata::load_safetensors(path); });
  return 0;
}
